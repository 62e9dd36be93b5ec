"""Systems as values: whom they wait for, how they weigh gradients, who asks for weights."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.dlion import Bounded, Progress, Transfer
from workbench.dlion.algorithms import SYSTEMS, WEIGHTINGS
from workbench.dlion.algorithms.hop import bounded_but_the_backup
from workbench.dlion.algorithms.synchronisation import asynchronous, delivered, synchronous
from workbench.dlion.costs.environments import ENVIRONMENTS
from workbench.dlion.costs.iteration import Workload, first_iterations


@pytest.mark.parametrize("iteration", [1, 4, 5, 6, 9, 10, 11, 12])
def test_who_waits_for_whom(iteration: int) -> None:
    for newest in product((0, iteration - 6, iteration, iteration + 3), repeat=3):
        of = Progress(iteration, dict(enumerate(newest)))
        missing = sorted(iteration - one for one in newest)  # positive: that many behind
        assert synchronous(of) == (missing[-1] <= 0)
        assert Bounded(0)(of) == synchronous(of)
        assert Bounded(5)(of) == (missing[-1] <= 5)
        assert bounded_but_the_backup(of) == (missing[-2] <= 5 and missing[-1] <= 10)
        assert asynchronous(of)
        assert delivered(of)
    assert not delivered(Progress(1, {1: 1}, undelivered=1))


def test_hop_runs_ahead_of_baseline_where_all_are_alike() -> None:
    """In Homo A its workers need not wait for gradients that are still on their way."""
    work = Workload(5e6, sample_s=0.004, host_s=0.2)
    cluster = ENVIRONMENTS["homo_a"].cluster()
    first = {name: first_iterations(cluster, work, name, 5) for name in ("baseline", "hop")}
    ends_s = {name: frame.filter(iteration=5)["at_s"].to_list() for name, frame in first.items()}
    assert max(ends_s["hop"]) < min(ends_s["baseline"])


def test_nobody_waits_for_nobody() -> None:
    for system in SYSTEMS.values():
        assert system.synch_training(Progress(9, {}))


def test_weights_of_gradients() -> None:
    """Eqs. 4 and 7: three workers, batches 2, 4 and 6."""
    assert WEIGHTINGS["equal"](2, 6, 12, 3) == 1 / 3
    assert WEIGHTINGS["dynamic"](2, 6, 12, 3) == pytest.approx(1 / 9)
    assert WEIGHTINGS["dynamic"](6, 2, 12, 3) == 1
    assert sum(WEIGHTINGS["by_samples"](one, 2, 12, 3) for one in (2, 4, 6)) == 1


LOSSES = st.dictionaries(st.integers(0, 6), st.sampled_from([0.0, 0.5, 0.5, 1.0]), min_size=1)


@given(LOSSES)
def test_who_asks_whom(losses: dict[int, float]) -> None:
    least, most = min(losses.values()), max(losses.values())
    best = min(node for node in losses if losses[node] == least)
    worst = max(node for node in losses if losses[node] == most)
    everyone, one = Transfer(), Transfer(whom="worst")
    assert everyone.best(losses) == one.best(losses) == best
    assert [node for node in losses if everyone.asks(node, losses)] == [
        node for node in losses if node != best
    ]
    asking = [node for node in losses if one.asks(node, losses)]
    assert asking == ([] if worst == best else [worst])


@pytest.mark.parametrize(
    ("transfer", "due"),
    [
        (Transfer(period=4), [4, 8, 12, 16, 20]),
        (Transfer(period=1), list(range(1, 21))),
        (Transfer(period=8, early_until=10, early_period=3), [3, 6, 9, 16]),
        (Transfer(period=50, early_until=20, early_period=10), [10, 20]),
        (Transfer(period=5, early_until=1, early_period=1), [1, 5, 10, 15, 20]),
    ],
)
def test_periods(transfer: Transfer, due: list[int]) -> None:
    assert [one for one in range(1, 21) if transfer.is_due(one)] == due

"""Epochs by the cost model: as the oracle says, balanced, and as the simulation finds them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.edgegossip.strategies import platforms
from tests.long import usually
from tests.oracles.edgegossip_course import balanced_end_s, balanced_ratios, plain_end_s
from tests.refusals import refusals
from workbench import datasets, decentralised, edgegossip
from workbench.decentralised import Trained
from workbench.decentralised.topologies import nearest
from workbench.edgegossip import EdgeGossip
from workbench.edgegossip.costs.course import Epoch, course, selecting_share, total_s
from workbench.edgegossip.costs.platforms import Load, Platform, exchange_s
from workbench.edgegossip.paper.cases import Case, Learning, deployed, setup, train
from workbench.edgegossip.prediction.predictor import Contention, Predictor

LEARNING = Learning("lenet5", "digits", 240, 20, epochs=3, batch_size=16, evaluate_every=100)
AT_RANDOM = EdgeGossip(strategy="random_points")  # neither ranking nor aggregating takes time
RANKING = EdgeGossip(features=1, operations_per_s=1e30)  # aggregating takes no time


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


def assert_simulated(rows: list[Epoch], trained: Trained[Any]) -> None:
    """Each platform learns from as many samples, and ends each epoch as late, as the model says."""
    for row in rows:
        simulated = trained.epochs.filter(epoch=row.epoch, node=row.node)
        assert simulated["samples"].item() == row.samples
        assert simulated["at_s"].item() == pytest.approx(row.end_s, rel=1e-9)


speeds = st.lists(st.floats(1e-4, 1e-1), min_size=1, max_size=6)


@pytest.mark.parametrize("reach", [None, 1, 2])
@given(speeds, st.integers(1, 4), st.floats(0, 2), st.data())
def test_gossip_is_the_oracles(
    reach: int | None, sample_s: list[float], epochs: int, transfer_s: float, data: st.DataObject
) -> None:
    """Plain and balanced, whose ratios are the same in each epoch, since nothing changes."""
    points = [data.draw(st.integers(1, 500)) for _ in sample_s]
    peers, who = None if reach is None else 2 * reach, platforms(*sample_s)
    rows = course(who, points, epochs, transfer_s, peers=peers)
    ends_s = [row.end_s for row in rows if row.epoch == epochs]
    assert ends_s == pytest.approx(plain_end_s(points, sample_s, epochs, transfer_s, reach))
    assert all(row.wait_s >= -1e-9 for row in rows)
    rows = course(who, points, epochs, transfer_s, AT_RANDOM, peers=peers)
    learnt = [[row.samples for row in rows if row.epoch == at + 1] for at in range(epochs)]
    assert [row.ratio for row in rows] == pytest.approx(balanced_ratios(points, sample_s) * epochs)
    ends_s = [row.end_s for row in rows if row.epoch == epochs]
    assert ends_s == pytest.approx(balanced_end_s(learnt, sample_s, transfer_s, reach))


@given(speeds, st.integers(1, 1000))
def test_balanced_platforms_learn_equally_long(sample_s: list[float], batch_size: int) -> None:
    """But for the rest of a point or a batch."""
    points = [1000] * len(sample_s)
    rows = course(platforms(*sample_s), points, 1, 0.0, AT_RANDOM, batch_size=batch_size)
    fastest_s = 1000 * min(sample_s)
    for row, seconds in zip(rows, sample_s, strict=True):
        assert row.samples == 1000 or row.samples % batch_size == 0
        assert row.learn_s >= fastest_s * (1 - 1e-9)
        assert row.learn_s <= fastest_s + batch_size * seconds * (1 + 1e-9)


@pytest.mark.parametrize("model", ["lenet5", "alexnet_cifar"])
def test_never_slower_than_plain_but_for_what_it_adds(model: str) -> None:
    deployment = deployed(Case(model), 240)
    ours, plain = deployment.course(5, deployment.options()), deployment.course(5)
    # What each epoch adds where that takes longest.
    added_s = [max(row.select_s for row in ours if row.epoch == epoch) for epoch in range(1, 6)]
    assert total_s(ours) - sum(added_s) < total_s(plain)
    if model == "alexnet_cifar":  # which gains more than ranking and aggregating take
        assert total_s(ours) < total_s(plain)


LARGER = Case("alexnet_cifar", 9)
UNEQUAL = Case("lenet5", ("cpu",) * 4, slower=(1.0, 1.0, 3.0, 5.0))


@pytest.mark.parametrize("case", [UNEQUAL, LARGER], ids=["unequal", "larger"])
def test_simulated_plain_gossip_takes_what_the_model_says(case: Case) -> None:
    """Under co-running load, with transfers that share uplinks, in true training."""
    trained = decentralised.train(setup(case, LEARNING))
    assert_simulated(deployed(case, 240).course(3), trained)


SUBSETS, POINTS = (EdgeGossip(strategy=f"random_{what}") for what in ("subsets", "points"))
SIMULATED = [
    case._replace(how=replace(how, ratio=5.0))
    for case in (Case("alexnet_cifar"), UNEQUAL, LARGER)
    for how in (EdgeGossip(), SUBSETS, POINTS, EdgeGossip(balancer="literal"))
]


@pytest.mark.parametrize(
    "case",
    usually([SIMULATED[at] for at in (0, 4, 7, 9)], SIMULATED),
    ids=lambda case: f"{case.model}-{case.nodes}-{case.how.strategy}-{case.how.balancer}",
)
def test_simulated_edgegossip_takes_what_the_model_says(case: Case) -> None:
    """Ranking and aggregating included; a small training's times are those of the paper's size."""
    small, whole = deployed(case, 240), deployed(case, 50_000)
    options, of_whole = small.options(case.how), whole.options(case.how)
    assert options.aggregating_s(60) == pytest.approx(of_whole.aggregating_s(12_500))
    assert_simulated(small.course(3, options), train(case, LEARNING))


@pytest.mark.parametrize(
    "technique",
    usually(["incremental_svd_lsh"], ["svd_kmeans", "incremental_svd_lsh", "hash_kmeans"]),
)
@pytest.mark.parametrize("peers", usually([4, None], [2, 4, None]))
def test_balanced_ring_is_simulated_as_the_model_says(technique: str, peers: int | None) -> None:
    """Peers are the nearest on a ring, the balancer hears all; platforms of one's own."""
    exchange = None if peers is None else decentralised.Gossip(nearest(9, peers))
    who = platforms(*(0.01 * (1 + at % 4) for at in range(9)))
    digits = datasets.load("digits").limit(train=540, test=20)
    made = edgegossip.Setup(
        linear, digits, who, exchange=exchange, epochs=4, batch_size=16,
        uplink_bps=1e7, overhead_s=0.01, evaluate_every=100, seed=3,
    )  # fmt: skip
    assert all(len(np.unique(digits.y_train[shard])) == 10 for shard in made.held)
    how = EdgeGossip(technique=technique, ratio=5.0, operations_per_s=1e8, features=64)
    trained = edgegossip.train(made, how)
    each_s = exchange_s(8 if peers is None else peers, 4 * 650, 1e7, 0.01)
    rows = course(who, [60] * 9, 4, each_s, how, peers=peers)
    assert len({row.ratio for row in rows}) > 2
    assert_simulated(rows, trained)


@pytest.mark.parametrize("plain", [True, False])
def test_a_model_waits_for_the_one_before_only_without_a_balancer(plain: bool) -> None:
    """A platform is slow at first: its next epoch is over before its first model is through.

    The balancer, in contrast, hears all when all models are through.
    """
    loaded = Load((0.0, 0.8), (Contention(1.0, 1.0, 1.0), Contention()))
    quick, slow = platforms(0.01, 0.01)
    who, data = [quick, replace(slow, load=loaded)], datasets.load("digits").limit(40, 8)
    of = edgegossip.Setup(linear, data, who, epochs=4, batch_size=8, uplink_bps=1e6, overhead_s=0.5)
    each_s, how = exchange_s(1, 4 * 650, 1e6, 0.5), None if plain else AT_RANDOM
    rows = course(who, [20] * 2, 4, each_s, how)
    done_s = [row.end_s - row.wait_s for row in rows if row.node == 1]
    assert (min(np.diff(done_s)) < each_s) == plain
    assert_simulated(rows, decentralised.train(of, how))


def test_sharing_an_uplink_takes_as_long_as_all_transfers_together() -> None:
    assert exchange_s(3, 1e6, 8e6, 0.25) == pytest.approx(3.25)
    assert exchange_s(0, 1e6, 8e6, 0.25) == 0


def test_the_share_of_ranking_leaves_out_the_first_epoch_and_may_count_waiting() -> None:
    """Two equal platforms that rank 1 s, learn 10 s, and wait 4 s for each other's models."""
    how = EdgeGossip(forward_share=1.0, features=1)
    rows = course(platforms(0.1, 0.1), [100, 100], 3, 4.0, how)
    assert rows[0].select_s - rows[2].select_s == pytest.approx(how.aggregating_s(100))
    assert selecting_share(rows) == pytest.approx(1 / 15)
    assert selecting_share(rows, waiting=False) == pytest.approx(1 / 11)


@given(st.floats(0.1, 10), st.integers(1, 3))
def test_a_platform_some_times_slower_takes_as_many_times_as_long(
    slower: float, epochs: int
) -> None:
    """Learning, ranking and aggregating alike."""
    kind = Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01)
    slow = Platform("slow", kind, slower=slower)
    how = EdgeGossip(features=64, operations_per_s=1e5)
    quick_s, slow_s = (
        total_s(course([each], [100], epochs, 0.0, how)) for each in (Platform("quick", kind), slow)
    )
    assert slow_s == pytest.approx(slower * quick_s)
    assert slow.throughput(slow.baseline_s, 0.0, 60.0) == pytest.approx(100 / slower)


@pytest.mark.parametrize(
    ("slower", "how", "learnt"),
    [
        ((1, 3, 5), replace(AT_RANDOM, threshold=30.0, failed_share=0.5), [40, 14, 0]),
        ((1, 3, 5), replace(AT_RANDOM, threshold=30.0, failed_share=0.1), [70, 24, 0]),
        ((2, 2, 8), replace(AT_RANDOM, threshold=20.0, failed_share=0.0), [60, 60, 0]),
        ((1, 3, 0.5), AT_RANDOM, [20, 7, 40]),
    ],
    ids=["one left out", "one taken over", "two equal", "none failed"],
)
def test_failed_and_slower_platforms_are_simulated_as_the_model_says(
    slower: tuple[float, ...], how: EdgeGossip, learnt: list[int]
) -> None:
    """Of 100 samples a second at speed 1; who is left takes over 40 samples by speed, or none."""
    kind = Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01)
    who = [Platform(f"platform{at}", kind, slower=times) for at, times in enumerate(slower)]
    data = datasets.load("digits").limit(train=120, test=8)
    of = edgegossip.Setup(
        linear, data, who, epochs=2, batch_size=8, uplink_bps=1e6, overhead_s=0.01
    )
    rows = course(who, [40] * 3, 2, exchange_s(2, 4 * 650, 1e6, 0.01), how)
    assert [row.samples for row in rows] == learnt * 2
    assert_simulated(rows, edgegossip.train(of, how))


def test_what_is_taken_over_is_aggregated_as_simulated() -> None:
    who, data = platforms(0.005, 0.01, 0.05), datasets.load("digits").limit(train=240, test=16)
    how = EdgeGossip(ratio=4, threshold=60.0, operations_per_s=1e6, features=64)
    of = edgegossip.Setup(
        linear, data, who, epochs=3, batch_size=16, uplink_bps=1e6, overhead_s=0.01
    )
    rows = course(who, [80] * 3, 3, exchange_s(2, 4 * 650, 1e6, 0.01), how)
    assert_simulated(rows, edgegossip.train(of, how))


def test_a_prediction_that_lags_behind_the_load_costs_time() -> None:
    """With a window of contention the balancer is late; the times stay those of the true speed."""
    deployment = deployed(Case("lenet5"), 240)
    rows = deployment.course(8, deployment.options())
    learn_s = np.array([row.learn_s for row in rows]).reshape(8, 4)
    assert (learn_s.max(1) > learn_s.min(1) * 1.01).any()


test_course_refused = refusals(
    course,
    {
        "platforms": platforms(0.1, 0.1),
        "points": [3, 3],
        "epochs": 1,
        "exchange_s": 0.0,
        "how": RANKING,
    },
    {
        "epochs": {"epochs is .* whole number of at least 1": [0, 1.5, "3", True]},
        "peers": {"give an even number": [0, 1, 3, -2, 2.5, "2"]},
        "how": {"features is None": [EdgeGossip()]},
    },
)

"""Epochs by the cost model: as the oracle says, balanced, and as the simulation finds them."""

import math
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
from workbench.edgegossip.aggregation.costs import generation_s
from workbench.edgegossip.costs.course import Aggregating, Epoch, course, selecting_share, total_s
from workbench.edgegossip.costs.platforms import Load, Platform, exchange_s
from workbench.edgegossip.paper.cases import Case, Learning, deployed, setup, train
from workbench.edgegossip.prediction.predictor import Contention, Predictor
from workbench.profiles import profile_model

LEARNING = Learning("lenet5", "digits", 240, 20, epochs=3, batch_size=16, evaluate_every=100)


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


def assert_simulated(rows: list[Epoch], trained: Trained[Any]) -> None:
    """Each platform learns from as many samples, and ends each epoch as late, as the model says."""
    for row in rows:
        found = trained.epochs.filter(epoch=row.epoch, node=row.node)
        assert found["samples"].item() == row.samples
        assert found["at_s"].item() == pytest.approx(row.end_s, rel=1e-9)


speeds = st.lists(st.floats(1e-4, 1e-1), min_size=1, max_size=6)


@pytest.mark.parametrize("reach", [None, 1, 2])
@given(speeds, st.integers(1, 4), st.floats(0, 2), st.data())
def test_plain_gossip_is_the_oracles(
    reach: int | None, sample_s: list[float], epochs: int, transfer_s: float, data: st.DataObject
) -> None:
    points = [data.draw(st.integers(1, 500)) for _ in sample_s]
    peers = None if reach is None else 2 * reach
    rows = course(platforms(*sample_s), points, epochs, transfer_s, peers=peers)
    ends = [one.end_s for one in rows if one.epoch == epochs]
    assert ends == pytest.approx(plain_end_s(points, sample_s, epochs, transfer_s, reach))
    assert all(one.wait_s >= -1e-9 for one in rows)


@pytest.mark.parametrize("reach", [None, 1, 2])
@given(speeds, st.integers(1, 4), st.floats(0, 2), st.data())
def test_balanced_gossip_is_the_oracles(
    reach: int | None, sample_s: list[float], epochs: int, transfer_s: float, data: st.DataObject
) -> None:
    """Of equal ratios in each epoch, since nothing changes; ranking takes no time."""
    points = [data.draw(st.integers(1, 500)) for _ in sample_s]
    peers, adds = None if reach is None else 2 * reach, Aggregating(math.inf, balancer="literal")
    rows = course(platforms(*sample_s), points, epochs, transfer_s, adds, peers=peers)
    learnt = [[row.samples for row in rows if row.epoch == at + 1] for at in range(epochs)]
    ratios = balanced_ratios(points, sample_s) * epochs
    assert [row.ratio for row in rows] == pytest.approx(ratios)
    ends_s = [row.end_s for row in rows if row.epoch == epochs]
    assert ends_s == pytest.approx(balanced_end_s(learnt, sample_s, transfer_s, reach))


@given(speeds)
def test_balanced_platforms_learn_equally_long(sample_s: list[float]) -> None:
    points = [1000] * len(sample_s)
    rows = course(platforms(*sample_s), points, 1, 0.0, Aggregating(balancer="literal"))
    assert [one.ratio for one in rows] == pytest.approx(balanced_ratios(points, sample_s))
    fastest_s = 1000 * min(sample_s)
    for one, seconds in zip(rows, sample_s, strict=True):
        assert fastest_s * (1 - 1e-9) <= one.learn_s <= fastest_s + seconds * (1 + 1e-9)


@pytest.mark.parametrize("model", ["lenet5", "alexnet_cifar"])
def test_never_slower_than_plain_but_for_what_it_adds(model: str) -> None:
    one = deployed(Case(model), 240)
    ours, plain = one.course(5, one.aggregating()), one.course(5)
    # What each epoch adds where that takes longest.
    added_s = [max(row.select_s for row in ours if row.epoch == epoch) for epoch in range(1, 6)]
    assert total_s(ours) - sum(added_s) < total_s(plain)
    if model == "alexnet_cifar":  # which gains more than ranking and aggregating take
        assert total_s(ours) < total_s(plain)


LARGER = Case("alexnet_cifar", 9)
UNEQUAL = Case("lenet5", ("cpu",) * 4, slower=(1.0, 1.0, 3.0, 5.0))


@pytest.mark.parametrize("case", [Case("lenet5"), Case("alexnet_cifar"), UNEQUAL, LARGER], ids=str)
def test_simulated_plain_gossip_takes_what_the_model_says(case: Case) -> None:
    """Under co-running load, with transfers that share uplinks, in true training."""
    trained = decentralised.train(setup(case, LEARNING))
    assert_simulated(deployed(case, 240).course(3), trained)


@pytest.mark.parametrize(
    "of",
    [Case("alexnet_cifar"), UNEQUAL, LARGER, UNEQUAL._replace(balancer="literal")],
    ids=["alexnet", "unequal", "larger", "literal"],
)
@pytest.mark.parametrize("strategy", ["accuracy_aware", "random_subsets", "random_points"])
def test_simulated_edgegossip_takes_what_the_model_says(strategy: str, of: Case) -> None:
    """Ranking and aggregating included; a small training's times are those of the paper's size."""
    case = of._replace(strategy=strategy, ratio=5.0)
    trained = train(case, LEARNING)
    one = deployed(case, 240)
    paper = deployed(case, 50_000).aggregating(ratio=5.0)
    assert one.aggregating(ratio=5.0) == paper
    adds = {
        "accuracy_aware": replace(paper, balancer=case.balancer),
        "random_subsets": replace(paper, forward_share=0.0),
        "random_points": Aggregating(forward_share=0.0),
    }
    assert_simulated(one.course(3, adds[strategy]), trained)


@pytest.mark.parametrize(
    "technique",
    usually(["incremental_svd_lsh"], ["svd_kmeans", "incremental_svd_lsh", "hash_kmeans"]),
)
@pytest.mark.parametrize("peers", [2, 4, None])
def test_a_balanced_ring_is_simulated_as_the_model_says(technique: str, peers: int | None) -> None:
    """Peers are the nearest on a ring, the balancer hears all; platforms of one's own."""
    exchange = None if peers is None else decentralised.Gossip(nearest(9, peers))
    who = platforms(*(0.01 * (1 + at % 4) for at in range(9)))
    digits = datasets.load("digits").limit(train=540, test=20).fitted((1, 28, 28))
    made = edgegossip.Setup(
        "lenet5", digits, who, exchange=exchange, epochs=6, batch_size=16,
        uplink_bps=1e7, overhead_s=0.01, evaluate_every=100, seed=3,
    )  # fmt: skip
    shards = made.held
    assert all(len(np.unique(digits.y_train[shard])) == 10 for shard in shards)
    trained = edgegossip.train(made, technique=technique, ratio=5.0, operations_per_s=1e8)
    model_bytes = profile_model("lenet5").param_bytes
    each_s = exchange_s(8 if peers is None else peers, model_bytes, 1e7, 0.01)
    adds = Aggregating(5.0, (generation_s(technique, 60, 784, 5.0, 1e8),) * 9)
    rows = course(who, [60] * 9, 6, each_s, adds, peers=peers)
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
    each_s = exchange_s(1, 4 * 650, 1e6, 0.5)
    rows = course(who, [20] * 2, 4, each_s, None if plain else Aggregating(math.inf))
    done_s = [row.end_s - row.wait_s for row in rows if row.node == 1]
    assert (min(np.diff(done_s)) < each_s) == plain
    how = None if plain else edgegossip.EdgeGossip(strategy="random_points")
    assert_simulated(rows, decentralised.train(of, how))


def test_sharing_an_uplink_takes_as_long_as_all_transfers_together() -> None:
    assert exchange_s(3, 1e6, 8e6, 0.25) == pytest.approx(3.25)
    assert exchange_s(0, 1e6, 8e6, 0.25) == 0


def test_the_share_of_ranking_leaves_the_first_epoch_out() -> None:
    rows = course(platforms(0.01), [100], 3, 0.0, Aggregating(10.0, (50.0,), forward_share=0.5))
    assert rows[0].select_s == pytest.approx(50.05)
    assert selecting_share(rows) == pytest.approx(0.05 / 1.05)
    assert selecting_share(rows, waiting=False) == pytest.approx(0.05 / 1.05)
    assert [one.wait_s for one in rows] == pytest.approx([0, 0, 0], abs=1e-9)


def test_the_share_of_an_epoch_counts_the_waiting() -> None:
    """Two equal platforms that rank 1 s, learn 10 s, and wait 4 s for each other's models."""
    rows = course(platforms(0.1, 0.1), [100, 100], 3, 4.0, Aggregating(10.0, forward_share=1.0))
    assert selecting_share(rows) == pytest.approx(1 / 15)
    assert selecting_share(rows, waiting=False) == pytest.approx(1 / 11)


@given(st.floats(0.1, 10), st.integers(1, 3))
def test_a_platform_so_many_times_slower_takes_so_many_times_as_long(
    slower: float, epochs: int
) -> None:
    """Learning, ranking and aggregating alike."""
    kind = Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01)
    slow = Platform("slow", kind, slower=slower)
    adds = Aggregating(10.0, (50.0,))
    quick_s, slow_s = (
        total_s(course([one], [100], epochs, 0.0, adds)) for one in (Platform("quick", kind), slow)
    )
    assert slow_s == pytest.approx(slower * quick_s)
    assert slow.throughput(slow.baseline_s, 0.0, 60.0) == pytest.approx(100 / slower)


@pytest.mark.parametrize("failed_share", [0.1, 0.5])
def test_failed_platforms_are_simulated_as_the_model_says(failed_share: float) -> None:
    """The third, of 50 points a second, fails; others take over its points, or leave them out."""
    who, data = platforms(0.005, 0.01, 0.02), datasets.load("digits").limit(train=240, test=16)
    fails: dict[str, Any] = {"threshold": 60.0, "failed_share": failed_share}
    of = edgegossip.Setup(
        linear, data, who, epochs=3, batch_size=16, uplink_bps=1e6, overhead_s=0.01
    )
    trained = edgegossip.train(of, "random_points", **fails)
    each_s = exchange_s(2, 4 * 650, 1e6, 0.01)
    rows = course(who, [80] * 3, 3, each_s, Aggregating(math.inf, **fails))
    assert_simulated(rows, trained)
    taken = 80 * 0.2 / 0.3 if failed_share == 0.1 else 0
    assert [row.samples for row in rows if row.epoch == 3][::2] == [80 + round(taken), 0]


@pytest.mark.parametrize(
    ("slower", "fails", "learnt"),
    [
        ((1, 3, 5), {"threshold": 30.0, "failed_share": 0.5}, [40, 14, 0]),
        ((1, 3, 5), {"threshold": 30.0, "failed_share": 0.1}, [70, 24, 0]),
        ((2, 2, 8), {"threshold": 20.0, "failed_share": 0.0}, [60, 60, 0]),
        ((1, 3, 0.5), {}, [20, 7, 40]),
    ],
)
def test_slower_platforms_are_simulated_as_the_model_says(
    slower: tuple[float, ...], fails: dict[str, Any], learnt: list[int]
) -> None:
    """Of 100 samples a second at speed 1; who is left takes over 40 samples by speed, or none."""
    kind = Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01)
    who = [Platform(f"platform{at}", kind, slower=times) for at, times in enumerate(slower)]
    data = datasets.load("digits").limit(train=120, test=8)
    of = edgegossip.Setup(
        linear, data, who, epochs=2, batch_size=8, uplink_bps=1e6, overhead_s=0.01
    )
    fails |= {"on_failures": "reassign"}
    rows = course(
        who, [40] * 3, 2, exchange_s(2, 4 * 650, 1e6, 0.01), Aggregating(math.inf, **fails)
    )
    assert [row.samples for row in rows] == learnt * 2
    assert_simulated(rows, edgegossip.train(of, "random_points", **fails))


def test_a_prediction_that_lags_behind_the_load_costs_time() -> None:
    """With a window of contention the balancer is late; the times stay those of the true speed."""
    case = Case("lenet5")
    one = deployed(case, 240)
    rows = one.course(8, one.aggregating())
    learn_s = np.array([row.learn_s for row in rows]).reshape(8, 4)
    assert (learn_s.max(1) > learn_s.min(1) * 1.01).any()


test_course_refused = refusals(
    course,
    {"platforms": platforms(0.1, 0.1), "points": [3, 3], "epochs": 1, "exchange_s": 0.0},
    {
        "epochs": {"epochs is .* whole number of at least 1": [0, 1.5, "3", True]},
        "peers": {"give an even number": [0, 1, 3, -2, 2.5, "2"]},
    },
)

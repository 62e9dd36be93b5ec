"""DiLoCo, local SGD, NoLoCo and Moshpit SGD, which average every few iterations, against loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from tests.decentralised.exchanges.runs import (
    MODEL_BYTES,
    RATE,
    VALUE_BYTES,
    VALUES,
    batches,
    first,
    setup,
    train,
)
from tests.oracles import model_exchange as oracle
from workbench.decentralised.exchanges.diloco import NESTEROV, DiLoCo
from workbench.decentralised.exchanges.moshpit_sgd import MoshpitSgd, line
from workbench.decentralised.exchanges.noloco import NoLoCo, partner
from workbench.runtime import Crash
from workbench.training import Sgd

GROUPS = {
    4: [[[0, 1], [2, 3]], [[0, 2], [1, 3]]],
    5: [[[0, 1, 2], [3, 4]], [[0, 3], [1, 4], [2]]],
    6: [[[0, 1, 2], [3, 4, 5]], [[0, 3], [1, 4], [2, 5]]],
    7: [[[0, 1, 2], [3, 4, 5], [6]], [[0, 3, 6], [1, 4], [2, 5]]],
}


def pairs(seed: int, turn: int, nodes: int) -> list[list[int]]:
    """Pairs and who is alone, as the nodes find them."""
    found = {node: partner(seed, turn, node, nodes) for node in range(nodes)}
    return [
        [node] if other is None else [node, other]
        for node, other in found.items()
        if other is None or node < other
    ]


def lines(nodes: int, dimensions: int, axis: int) -> list[list[int]]:
    found = [line(node, nodes, dimensions, axis) for node in range(nodes)]
    return [group for node, group in enumerate(found) if group[0] == node]


@pytest.mark.parametrize(
    ("outer", "momentum"),
    [(NESTEROV, 0.0), (NESTEROV, 0.9), (Sgd(1.0), 0.9), (Sgd(0.5), 0.0)],
    ids=str,
)
def test_diloco(outer: Sgd, momentum: float) -> None:
    of = setup(3, first_weights="shared", iterations=13, sgd=Sgd(RATE, momentum=momentum))
    found = train(of, DiLoCo(4, outer))
    workers = [oracle.Inner(one, RATE, momentum) for one in first(of)]
    expected = oracle.diloco(workers, batches(of, 13), 4, outer.learning_rate, outer.momentum)
    np.testing.assert_allclose(found.weights, expected, atol=1e-9)


@pytest.mark.parametrize(("nodes", "first_weights"), [(4, "shared"), (5, "own")])
def test_noloco(nodes: int, first_weights: str) -> None:
    of = setup(nodes, first_weights=first_weights, iterations=12)
    found = train(of, NoLoCo(3, rate=0.6, momentum=0.4, consensus_rate=0.8))
    paired = [pairs(of.seed, turn, nodes) for turn in (3, 6, 9, 12)]
    workers = [oracle.Inner(one, RATE) for one in first(of)]
    expected = oracle.noloco(workers, batches(of, 12), paired, (0.4, 0.6, 0.8))
    np.testing.assert_allclose(found.weights, expected, atol=1e-9)


@pytest.mark.parametrize("nodes", GROUPS)
def test_moshpit_sgd(nodes: int) -> None:
    assert [lines(nodes, 2, axis) for axis in (0, 1)] == GROUPS[nodes]
    of = setup(nodes, iterations=11)
    found = train(of, MoshpitSgd(2))
    workers = [oracle.Inner(one, RATE) for one in first(of)]
    expected = oracle.grouped(workers, batches(of, 11), GROUPS[nodes], 2)
    np.testing.assert_allclose(found.weights, expected, atol=1e-9)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.parametrize("nodes", [1, 2, 6, 11, 16])
def test_everyone_is_on_one_line(nodes: int, dimensions: int) -> None:
    for axis in range(dimensions):
        found = lines(nodes, dimensions, axis)
        assert sorted(node for group in found for node in group) == list(range(nodes))
        assert all(line(node, nodes, dimensions, axis) == one for one in found for node in one)
    assert dimensions > 1 or lines(nodes, 1, 0) == [list(range(nodes))]


@pytest.mark.parametrize("nodes", [1, 2, 5, 6])
def test_everyone_has_one_partner(nodes: int) -> None:
    met: set[tuple[int, ...]] = set()
    for turn in range(60):
        found = pairs(3, turn, nodes)
        assert sorted(node for group in found for node in group) == list(range(nodes))
        assert [len(group) for group in found].count(1) == nodes % 2
        met.update(tuple(group) for group in found if len(group) == 2)
    assert len(met) == nodes * (nodes - 1) // 2  # in time, everybody meets everybody
    assert nodes < 5 or pairs(3, 1, nodes) != pairs(4, 1, nodes)


def test_all_have_the_same_bits_after_a_round_of_diloco() -> None:
    of = setup(5, first_weights="shared", iterations=12, speeds=[1, 2, 0.5, 1, 3])
    weights = train(of, DiLoCo(4)).weights
    assert (weights == weights[0]).all()


@pytest.mark.parametrize("nodes", [2, 3, 7])
def test_each_worker_sends_its_part_of_an_all_reduce(nodes: int) -> None:
    """The others' shares of its own model, then the mean of its share to each of them."""
    transfers = train(setup(nodes, iterations=4), DiLoCo(4)).transfers
    edges = [VALUES * node // nodes for node in range(nodes + 1)]
    shares = [end - begin for begin, end in pairwise(edges)]
    sent = transfers.group_by("source").agg(pl.col("bytes").sum()).sort("source")["bytes"]
    assert sent.to_list() == [VALUE_BYTES * (VALUES - own + (nodes - 1) * own) for own in shares]


@pytest.mark.parametrize(
    ("exchange", "nodes", "models"),
    [
        (MoshpitSgd(2), 3, [2, 1, 1]),  # of 2 x 2 places: 0 beside 1, 0 above 2
        (MoshpitSgd(2), 5, [3, 3, 2, 2, 2]),  # of 3 x 3: 0 1 2 above 3 4
        (MoshpitSgd(4, dimensions=1), 4, [3, 3, 3, 3]),
        (NoLoCo(4), 4, [2, 2, 2, 2]),
        (NoLoCo(2), 2, [4, 4]),
    ],
    ids=str,
)
def test_each_worker_sends_its_group_a_model_a_round(
    exchange: NoLoCo | MoshpitSgd, nodes: int, models: list[int]
) -> None:
    transfers = train(setup(nodes, iterations=4), exchange).transfers
    sent = transfers.group_by("source").agg(pl.col("bytes").sum()).sort("source")["bytes"]
    assert sent.to_list() == [MODEL_BYTES * count for count in models]


@pytest.mark.parametrize("node", [0, 2])
def test_diloco_averages_over_those_that_are_there(node: int) -> None:
    """In rounds after a crash everybody else has the same model again."""
    of = setup(4, first_weights="shared", iterations=24, patience_s=0.3)
    weights = train(of, DiLoCo(4, Sgd(1.0)), faults=[Crash(node, 0.5)]).weights
    rest = np.delete(weights, node, axis=0)
    np.testing.assert_allclose(rest, np.broadcast_to(rest[0], rest.shape), atol=1e-6)
    assert np.abs(rest[0] - weights[node]).max() > 1e-3


def test_all_wait_for_the_slowest_in_diloco() -> None:
    of = setup(3, iterations=8, speeds=[1, 1, 0.25])
    found = train(of, DiLoCo(4))
    # four steps of 8 samples at a quarter of the speed, and two models on an uplink, twice
    ends_s = found.iterations.filter(node=0, iteration=8)["at_s"].item()
    assert ends_s == pytest.approx(2 * (4 * 8 * 0.01 / 0.25 + 0.02), rel=0.05)

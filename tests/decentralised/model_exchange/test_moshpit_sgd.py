"""Moshpit SGD against plain loops; groups of any number of workers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.decentralised.model_exchange.runs import MODEL_BYTES, RATE, batches, first, setup, train
from tests.oracles import model_exchange as oracle
from workbench.decentralised.model_exchange.moshpit_sgd import MoshpitSgd, line

GROUPS = {
    4: [[[0, 1], [2, 3]], [[0, 2], [1, 3]]],
    5: [[[0, 1, 2], [3, 4]], [[0, 3], [1, 4], [2]]],
    6: [[[0, 1, 2], [3, 4, 5]], [[0, 3], [1, 4], [2, 5]]],
    7: [[[0, 1, 2], [3, 4, 5], [6]], [[0, 3, 6], [1, 4], [2, 5]]],
}


def lines(nodes: int, dimensions: int, axis: int) -> list[list[int]]:
    found = [line(node, nodes, dimensions, axis) for node in range(nodes)]
    return [group for node, group in enumerate(found) if group[0] == node]


@pytest.mark.parametrize("nodes", GROUPS)
def test_lines_of_a_square(nodes: int) -> None:
    assert [lines(nodes, 2, axis) for axis in (0, 1)] == GROUPS[nodes]


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.parametrize("nodes", [1, 2, 6, 11, 16])
def test_everyone_is_on_one_line(nodes: int, dimensions: int) -> None:
    for axis in range(dimensions):
        found = lines(nodes, dimensions, axis)
        assert sorted(node for group in found for node in group) == list(range(nodes))
        assert all(line(node, nodes, dimensions, axis) == one for one in found for node in one)
    assert dimensions > 1 or lines(nodes, 1, 0) == [list(range(nodes))]


@pytest.mark.parametrize("nodes", GROUPS)
def test_against_plain_loops(nodes: int) -> None:
    of = setup(nodes, iterations=11)
    found = train(of, MoshpitSgd(2))
    workers = [oracle.Inner(one, RATE) for one in first(of)]
    expected = oracle.grouped(workers, batches(of, 11), GROUPS[nodes], 2)
    np.testing.assert_allclose(found.weights, expected, atol=2e-5)


def test_models_are_sent_within_groups() -> None:
    transfers = train(setup(6, iterations=4), MoshpitSgd(2)).transfers
    along, across = 2 * 3 * 2, 3 * 2
    assert transfers["bytes"].to_list() == [MODEL_BYTES] * (along + across)

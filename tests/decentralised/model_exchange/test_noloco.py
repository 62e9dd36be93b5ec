"""NoLoCo against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.decentralised.model_exchange.runs import MODEL_BYTES, RATE, batches, first, setup, train
from tests.oracles import model_exchange as oracle
from workbench.decentralised.model_exchange.noloco import NoLoCo
from workbench.decentralised.model_exchange.peer import partner


def groups(seed: int, turn: int, nodes: int) -> list[list[int]]:
    """Pairs and who is alone, as the nodes find them."""
    found = {node: partner(seed, turn, node, nodes) for node in range(nodes)}
    return [
        [node] if other is None else [node, other]
        for node, other in found.items()
        if other is None or node < other
    ]


@pytest.mark.parametrize("nodes", [1, 2, 5, 6])
def test_everyone_has_one_partner(nodes: int) -> None:
    met: set[tuple[int, ...]] = set()
    for turn in range(60):
        found = groups(3, turn, nodes)
        assert sorted(node for group in found for node in group) == list(range(nodes))
        assert [len(group) for group in found].count(1) == nodes % 2
        met.update(tuple(group) for group in found if len(group) == 2)
    assert len(met) == nodes * (nodes - 1) // 2  # in time, everybody meets everybody
    assert nodes < 5 or groups(3, 1, nodes) != groups(4, 1, nodes)


@pytest.mark.parametrize("nodes", [4, 5])
@pytest.mark.parametrize("first_weights", ["own", "shared"])
def test_against_plain_loops(nodes: int, first_weights: str) -> None:
    of = setup(nodes, first_weights=first_weights, iterations=12)
    found = train(of, NoLoCo(3, rate=0.6, momentum=0.4, consensus_rate=0.8))
    paired = [groups(of.seed, turn, nodes) for turn in (3, 6, 9, 12)]
    workers = [oracle.Inner(one, RATE) for one in first(of)]
    expected = oracle.noloco(workers, batches(of, 12), paired, (0.4, 0.6, 0.8))
    np.testing.assert_allclose(found.weights, expected, atol=2e-5)


def test_a_pair_sends_weights_and_slow_weights() -> None:
    transfers = train(setup(5, iterations=12), NoLoCo(3)).transfers
    assert transfers["bytes"].to_list() == [2 * MODEL_BYTES] * 4 * 4

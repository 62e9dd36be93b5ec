"""CHOCO-SGD against plain loops; what is lost is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.decentralised.exchanges.runs import (
    MODEL_BYTES,
    RATE,
    VALUES,
    batches,
    first,
    setup,
    train,
)
from tests.oracles import model_exchange as oracle
from workbench.decentralised import ChocoSgd, MakeExchange, Worker
from workbench.decentralised.exchanges.choco_sgd import Copies, largest
from workbench.runtime import Crash, Fault, LinkDown, Restart


def test_the_largest() -> None:
    values = np.array([3, -5, 0, 5, -3, 3, 1], np.float32)
    assert largest(values, 0.2).tolist() == [1]
    assert largest(values, 0.3).tolist() == [1, 3]
    assert largest(values, 0.5).tolist() == [0, 1, 3]  # of equals the first
    assert largest(values, 1.0).tolist() == list(range(7))
    assert largest(values, 1e-9).tolist() == [1]


@pytest.mark.parametrize(
    ("share", "rate", "first_weights"),
    [(0.02, 0.05, "own"), (0.3, 0.4, "shared"), (1.0, 1.0, "own")],
)
def test_against_plain_loops(share: float, rate: float, first_weights: str) -> None:
    of = setup(4, first_weights=first_weights, iterations=8)
    found = train(of, ChocoSgd(share, rate))
    workers = [oracle.Inner(one, RATE) for one in first(of)]
    expected = oracle.choco_sgd(workers, batches(of, 8), int(share * VALUES), rate)
    np.testing.assert_allclose(found.weights, expected, atol=1e-9)


def test_indices_and_values_are_sent() -> None:
    transfers = train(setup(3, iterations=5), ChocoSgd(0.1)).transfers
    assert transfers["bytes"].to_list() == [65 * (4 + 8)] * 5 * 3 * 2
    assert set(transfers["values"]) == {2 * 65}


@pytest.mark.parametrize(
    "faults",
    [
        [Crash("node1", 1.0), Restart("node1", 2.0)],
        [Crash("node1", 0.95), Restart("node1", 0.955)],
        [LinkDown("node0", "node1", 1.0, 2.5)],
    ],
    ids=["long gone", "soon back", "link down"],
)
def test_copies_are_right_again_after_failures(faults: list[Fault]) -> None:
    made: dict[int, Copies] = {}

    class Noting(MakeExchange):
        def __call__(self, worker: Worker) -> Copies:
            made[worker.node] = ChocoSgd(0.1, 0.2)(worker)
            return made[worker.node]

    of = setup(3, first_weights="own", iterations=80, patience_s=0.4)
    found = train(of, Noting(), faults=faults)
    assert found.run.ended == "done"
    # copies were asked for, and not sent any longer than they were
    assert 2 <= found.transfers["bytes"].to_list().count(MODEL_BYTES) <= 12
    for node, one in made.items():
        assert sorted(one.copies) == [0, 1, 2]
        for other in made:
            assert (one.copies[other] == made[other].copies[other]).all(), (node, other)

"""DiLoCo and local SGD against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.decentralised.model_exchange.runs import MODEL_BYTES, RATE, batches, first, setup, train
from tests.oracles import model_exchange as oracle
from workbench.decentralised.model_exchange.diloco import NESTEROV, DiLoCo
from workbench.training import Sgd

ITERATIONS = 13


@pytest.mark.parametrize("outer", [NESTEROV, Sgd(1.0), Sgd(0.5)], ids=str)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_against_plain_loops(outer: Sgd, momentum: float) -> None:
    of = setup(3, first_weights="shared", iterations=ITERATIONS, sgd=Sgd(RATE, momentum=momentum))
    found = train(of, DiLoCo(4, outer))
    workers = [oracle.Inner(one, RATE, momentum) for one in first(of)]
    expected = oracle.diloco(
        workers, batches(of, ITERATIONS), 4, outer.learning_rate, outer.momentum
    )
    np.testing.assert_allclose(found.weights, expected, atol=2e-5)


def test_all_have_the_same_bits_after_a_round() -> None:
    of = setup(5, first_weights="shared", iterations=12, speeds=[1, 2, 0.5, 1, 3])
    weights = train(of, DiLoCo(4)).weights
    assert (weights == weights[0]).all()


def test_a_round_sends_everyone_a_model() -> None:
    transfers = train(setup(3, iterations=13), DiLoCo(4)).transfers
    assert transfers["bytes"].to_list() == [MODEL_BYTES] * 3 * 2 * 3
    assert sorted(set(transfers["iteration"])) == [4, 8, 12]


def test_all_wait_for_the_slowest() -> None:
    of = setup(3, iterations=8, speeds=[1, 1, 0.25])
    found = train(of, DiLoCo(4))
    # four steps of 8 samples at a quarter of the speed, and two models on an uplink, twice
    ends_s = found.iterations.filter(node=0, iteration=8)["at_s"].item()
    assert ends_s == pytest.approx(2 * (4 * 8 * 0.01 / 0.25 + 0.02), rel=0.05)

"""AD-PSGD: a case by hand, and what averaging leaves as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.decentralised.exchanges.runs import MODEL_BYTES, RATE, batches, first, setup, train
from tests.oracles import model_exchange as oracle
from workbench.decentralised import AdPsgd, MakeExchange, Worker
from workbench.decentralised.exchanges.ad_psgd import PairAveraging
from workbench.training import Sgd


def test_two_workers_by_hand() -> None:
    """The second is so slow that the first has finished before its first gradient is there."""
    of = setup(2, iterations=4, speeds=[1, 0.01])
    found = train(of, AdPsgd())
    mine = [("gradient", 0), ("average", 0), ("step", 0)] * 4
    its = [("gradient", 1), ("average", 1), ("step", 1)] * 4
    events = [its[0], *mine, *its[1:]]
    expected = oracle.ad_psgd(first(of), events, batches(of, 4), RATE)
    np.testing.assert_allclose(found.weights, expected, atol=1e-9)
    assert found.transfers["bytes"].to_list() == [MODEL_BYTES] * 2 * 8


class Noting(MakeExchange):
    """AD-PSGD that notes what steps change, and exchanges that begin while a worker waits."""

    def __init__(self) -> None:
        self.steps: list[np.ndarray] = []
        self.crossed: list[int] = []

    def __call__(self, worker: Worker) -> PairAveraging:
        noting, step = self, worker.learner.step

        def noted_step() -> None:
            before = worker.weights.astype(np.float64)
            step()
            noting.steps.append(worker.weights - before)

        class Noted(PairAveraging):
            waiting = False

            async def receive(self, *asked: Any) -> Any:
                self.waiting = True
                received = await super().receive(*asked)
                self.waiting = False
                return received

            def _answer(self, sender: int, turn: int, arrays: Any) -> None:
                if self.waiting:
                    noting.crossed.append(sender)
                super()._answer(sender, turn, arrays)

        worker.learner.step = noted_step  # type: ignore[method-assign]
        return Noted(worker)


def test_only_gradients_move_the_mean() -> None:
    exchange = Noting()
    of = setup(5, iterations=30, speeds=[1, 1.5, 0.7, 1, 3])
    weights = train(of, exchange).weights
    assert len(exchange.steps) == 5 * 30
    assert len(exchange.crossed) > 20
    expected = np.sum(first(of), axis=0) + np.sum(exchange.steps, axis=0)
    np.testing.assert_allclose(weights.sum(axis=0, dtype=np.float64), expected, atol=1e-5)


def test_models_come_together() -> None:
    of = setup(5, iterations=40, speeds=[1, 1.5, 0.7, 1, 3], sgd=Sgd(1e-30))
    weights = train(of, AdPsgd()).weights
    expected = np.broadcast_to(np.mean(first(of), axis=0), weights.shape)
    np.testing.assert_allclose(weights, expected, atol=1e-5)


def test_nobody_waits_for_the_slowest() -> None:
    of = setup(4, iterations=10, speeds=[1, 1, 1, 0.05])
    rows = train(of, AdPsgd()).iterations.filter(iteration=10)
    ends_s = dict(zip(rows["node"], rows["at_s"], strict=True))
    # a gradient of 0.08 s, a model there and one back; links may be shared by three
    assert max(ends_s[node] for node in range(3)) < 10 * (0.08 + 3 * 0.04)
    assert ends_s[3] == pytest.approx(10 * (0.08 / 0.05 + 0.04), rel=0.05)

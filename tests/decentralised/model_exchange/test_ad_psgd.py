"""AD-PSGD: a case by hand, and what averaging leaves as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import pytest

from tests.decentralised.model_exchange.runs import MODEL_BYTES, RATE, batches, first, setup, train
from tests.oracles import model_exchange as oracle
from workbench.decentralised.model_exchange.ad_psgd import AdPsgd
from workbench.decentralised.model_exchange.peer import Arrays, ModelExchange, Peer
from workbench.training import Sgd


def test_two_workers_by_hand() -> None:
    """The second is so slow that the first has finished before its first gradient is there."""
    of = setup(2, iterations=4, speeds=[1, 0.01])
    found = train(of, AdPsgd())
    mine = [("gradient", 0), ("average", 0), ("step", 0)] * 4
    its = [("gradient", 1), ("average", 1), ("step", 1)] * 4
    events = [its[0], *mine, *its[1:]]
    expected = oracle.ad_psgd(first(of), events, batches(of, 4), RATE)
    np.testing.assert_allclose(found.weights, expected, atol=2e-5)
    assert found.transfers["bytes"].to_list() == [MODEL_BYTES] * 2 * 8


class Recording:
    """A peer that notes what steps change, and exchanges that begin while it waits."""

    def __init__(self, peer: Peer, steps: list[np.ndarray], crossed: list[int]) -> None:
        self._peer, self._steps, self._crossed = peer, steps, crossed
        self._waits = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)

    def step(self) -> None:
        before = self._peer.weights.astype(np.float64)
        self._peer.step()
        self._steps.append(self._peer.weights - before)

    async def receive(
        self, topic: str, turn: int, senders: Collection[int]
    ) -> Mapping[int, Arrays]:
        self._waits = True
        received = await self._peer.receive(topic, turn, senders)
        self._waits = False
        return received

    def on(self, topic: str, act: Callable[[int, int, Arrays], None]) -> None:
        def noted(sender: int, turn: int, arrays: Arrays) -> None:
            if self._waits:
                self._crossed.append(sender)
            act(sender, turn, arrays)

        self._peer.on(topic, noted)


def test_only_gradients_move_the_mean() -> None:
    steps: list[np.ndarray] = []
    crossed: list[int] = []

    def exchange(peer: Peer) -> ModelExchange:
        recording: Any = Recording(peer, steps, crossed)
        return AdPsgd()(recording)

    of = setup(5, iterations=30, speeds=[1, 1.5, 0.7, 1, 3])
    weights = train(of, exchange).weights
    assert len(steps) == 5 * 30
    assert len(crossed) > 20
    expected = np.sum(first(of), axis=0) + np.sum(steps, axis=0)
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

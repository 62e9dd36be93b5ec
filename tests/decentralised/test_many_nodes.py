"""A hundred nodes learn, in memory that grows with their number and no faster."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.decentralised.setups import DIGITS, MODEL_BYTES, cluster, learners, linear
from workbench import decentralised
from workbench.decentralised import GossipSetup
from workbench.decentralised.learner import Model, PeerLearner
from workbench.runtime import simulate
from workbench.training import fixed_threads


def setup_of(nodes: int, epochs: int = 1) -> GossipSetup:
    """A few samples each, three peers each."""
    graph = decentralised.random_regular(nodes, 3)
    shards = [np.arange(3 * node, 3 * node + 4) % 96 for node in range(nodes)]
    return GossipSetup(
        linear, DIGITS, shards, cluster(graph), exchange=decentralised.Gossip(graph),
        batch_size=4, epochs=epochs, sample_s=0.01, evaluate_every=epochs, parallel=True,
    )  # fmt: skip


class Held:
    """Counts the models that are held at once, from when they are copied to be sent."""

    def __init__(self, learners: list[PeerLearner]) -> None:
        self.most, self._alive = 0, 0
        for learner in learners:
            learner.snapshot = partial(self._copied, learner.snapshot)  # type: ignore[method-assign]

    def _copied(self, snapshot: Callable[[], Model]) -> Model:
        made = snapshot()
        self._alive += 1
        self.most = max(self.most, self._alive)
        weakref.finalize(made.parameters, self._gone)
        return made

    def _gone(self) -> None:
        self._alive -= 1


def bytes_of(nodes: int, epochs: int = 1) -> tuple[int, int]:
    """Of all nodes' parameters, gradients and momentum; and of the most models under way."""
    setup = setup_of(nodes, epochs)
    with fixed_threads():
        built = setup.programs()
        held = Held(learners(built))
        run = simulate(setup.cluster, built.programs, observer=built.observe)
    assert run.ended == "done"
    assert len(built.recorder.rows) == nodes * epochs
    own: dict[int, int] = {}
    for learner in learners(built):
        vectors = (learner.flat.parameters, learner.flat.gradients, learner.velocity, learner.first)
        for tensor in (*vectors, *learner.flat.module.parameters()):
            storage = tensor.untyped_storage()
            own[storage.data_ptr()] = storage.nbytes()
    return sum(own.values()), held.most * MODEL_BYTES


@pytest.mark.parametrize("nodes", [10, 100])
def test_memory_is_linear_in_nodes_and_parameters(nodes: int) -> None:
    own, under_way = bytes_of(nodes)
    # Parameters, gradients and momentum of each, which the module's tensors are views of; and the
    # first model, which all share.
    assert own == (3 * nodes + 1) * MODEL_BYTES
    # A message to all peers holds one copy, until each has mixed it in.
    assert nodes * MODEL_BYTES <= under_way <= 2 * nodes * MODEL_BYTES


def test_more_epochs_hold_no_more_models() -> None:
    assert bytes_of(10, epochs=6)[1] <= 2 * 10 * MODEL_BYTES

"""What is learnt from and what is exchanged are hooks of one loop, and go with each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.dlion.trainings import DIGITS, RATE, setup
from workbench import decentralised, training
from workbench.decentralised import EverySample, GoSgd, GossipSetup, Step, Worker
from workbench.decentralised.epochs import Epochs
from workbench.decentralised.loop import run
from workbench.decentralised.recorder import Iteration
from workbench.dlion import Bounded, System, asynchronous
from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.programs.batch_sizes import BatchSizes
from workbench.dlion.programs.gradients import GradientExchange
from workbench.dlion.programs.program import WorkerProgram
from workbench.training import Sgd


def nothing(gradient: Any, links: Any) -> dict[int, Any]:
    return {}


def chosen(system: System, **changes: Any) -> Any:
    """A system of gradients whose workers learn from epochs that are chosen."""
    of = setup(1.0, 1.0, 0.5, epochs=2, first_weights="shared", **changes)
    by_epochs = GossipSetup(
        of.model, DIGITS, of.held, of.network, exchange=GoSgd(0.0), batch_size=8, epochs=2,
        sample_s=of.sample_s,
    )  # fmt: skip
    with training.fixed_threads():
        made = of.programs(system)

    class Chosen(WorkerProgram):
        async def __call__(self, context: Any) -> Any:
            self.worker = worker = Worker(self.job, self.state, context)
            exchange = GradientExchange(worker, system, BatchSizes(worker))
            worker.synchronisation = exchange.may_begin
            return await run(worker, Recorded(worker, by_epochs, EverySample(of.seed)), exchange)

    programs: list[Any] = made.programs
    own: list[Any] = [Chosen(made.job, system, program.state) for program in programs]
    return of, training.run(replace(made, programs=own))


class Recorded(Epochs):
    """Epochs whose steps are recorded as iterations."""

    async def after_step(self, step: Step, samples: int) -> None:
        await super().after_step(step, samples)
        context = self._worker.context
        context.record(Iteration(step.iteration, samples, 3 * samples, step.loss, 0))


def test_gradients_of_chosen_epochs_without_an_exchange_are_those_of_nodes_alone() -> None:
    """A gradient is weighed by one over the workers, so that the rate is as many times larger."""
    of, found = chosen(System("alone", nothing, asynchronous), sgd=Sgd(3 * RATE))
    alone = GossipSetup(
        of.model, DIGITS, of.held, of.network, exchange=GoSgd(0.0), batch_size=8, epochs=2,
        sample_s=of.sample_s, sgd=Sgd(RATE),
    )  # fmt: skip
    expected = decentralised.train(alone)
    for own, weights in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(own, weights.numpy(), rtol=1e-4, atol=1e-6)
    assert found.run.end_s == pytest.approx(expected.run.end_s)


@pytest.mark.parametrize("waits", [asynchronous, Bounded(2)])
def test_gradients_of_chosen_epochs_are_exchanged(waits: Any) -> None:
    """Everybody learns from each of its samples once an epoch, and hears all gradients."""
    of, found = chosen(System("whole", whole, waits))
    assert found.run.ended == "done"
    for node, shard in enumerate(of.held):
        assert found.iterations.filter(node=node)["samples"].sum() == 2 * len(shard)
    together = np.abs(found.weights - found.weights.mean(0)).max()
    assert together < 1e-5  # equal replicas, equal gradients, in another order
    _, alone = chosen(System("alone", nothing, waits))
    assert np.abs(found.weights[0] - alone.weights[0]).max() > 1e-3

"""A worker's program, the same for every system (Hong & Chandra 2021, Fig. 10, Sec. 4.1).

In each iteration a worker computes a gradient, exchanges what its system chooses, and begins the
next when its system allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from workbench.decentralised.job import Job
from workbench.decentralised.loop import run
from workbench.decentralised.worker import Worker
from workbench.dlion.algorithms.system import System
from workbench.dlion.programs.batch_sizes import BatchSizes
from workbench.dlion.programs.gradients import GradientExchange

if TYPE_CHECKING:
    from workbench.decentralised.exchange import Exchange, MakeExchange
    from workbench.decentralised.learner import Model, PeerLearner
    from workbench.runtime import Context, Synchronized


class WorkerModel(NamedTuple):
    """A worker's model, with all gradients that have arrived, and whether it is held back."""

    model: Model
    held_back: bool


class WorkerProgram:
    """Program of a worker, and its model; it returns the number of iterations computed."""

    def __init__(
        self, job: Job, how: System | MakeExchange, state: Synchronized[PeerLearner]
    ) -> None:
        self.job, self.how, self.state = job, how, state
        self.worker: Worker | None = None

    async def __call__(self, context: Context) -> int:
        """Learn until the last iteration, then serve the others until their last ones."""
        self.worker = worker = Worker(self.job, self.state, context)
        batching = self.how.batching if isinstance(self.how, System) else None
        batch_sizes = BatchSizes(worker, batching)
        exchange: Exchange
        if isinstance(self.how, System):
            exchange = gradients = GradientExchange(worker, self.how, batch_sizes)
            worker.synchronisation = gradients.may_begin
        else:
            exchange = self.how(worker)
        iterations: int = await run(worker, batch_sizes, exchange)
        return iterations

    def learnt(self) -> WorkerModel:
        """Return the model."""
        model, worker = self.state.value.snapshot(), self.worker
        if worker is None:
            return WorkerModel(model, held_back=False)
        for update, factor in worker.inbox:
            update.add_to(model.parameters.numpy(), factor)
        return WorkerModel(model, worker.held_back)

    def warm_up(self) -> None:
        """Compute a batch's gradient."""
        learner = self.state.value
        learner.try_out(self.job.shards[learner.node][: self.job.batch_size])

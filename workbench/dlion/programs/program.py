"""A worker's program, the same for every system (Hong & Chandra 2021, Fig. 10, Sec. 4.1).

In each iteration a worker computes a gradient, exchanges what its system chooses, and begins the
next when its system allows.

Deviation: a worker that restarts, which the paper leaves open, fetches a peer's model and goes on
in that one's iteration.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from workbench.decentralised.learner import Learner
from workbench.decentralised.rejoining import fetch
from workbench.dlion.programs.batch_sizes import BatchSizes, State
from workbench.dlion.programs.gradients import GradientExchange
from workbench.dlion.programs.model_peer import join
from workbench.dlion.programs.transfers import Transfers
from workbench.dlion.programs.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from workbench.dlion.programs.job import Job
    from workbench.runtime import Context, Message, Program

LATEST = 5
"""Iterations that the seconds of one are a mean of, for a link's budget (Sec. 3.3).

Deviation: over how many the paper counts them is not stated.
"""


class Checkpoint(NamedTuple):
    """What a worker that restarts begins with."""

    iteration: int
    parameters: Tensor
    buffers: Mapping[str, Tensor]
    batch_sizes: State


def program(job: Job) -> Program:
    """Program of each node; returns how many iterations it has computed."""

    async def run(context: Context) -> int:
        training = Training(Worker(job, context))
        await training.begin()
        while training.worker.progress.iteration < job.last_iteration:
            await training.iterate()
        await training.outlast()
        return training.worker.progress.iteration

    return run


class Training:
    """A worker's iterations."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.context = worker, worker.context
        system = worker.job.system
        self.batch_sizes = BatchSizes(worker)
        self.transfers = None if system.transfer is None else Transfers(worker, system.transfer)
        self.gradients, self.models = None, None
        if system.generate_partial_gradients is not None:
            self.gradients = GradientExchange(worker, system.generate_partial_gradients)
        elif system.exchange_models is not None:
            self.models = join(worker, system.exchange_models)
        self._latest_s: deque[float] = deque(maxlen=LATEST)
        self._done: set[int] = set()

    async def begin(self) -> None:
        """Listen; after a restart, fetch a model."""
        worker, context, setup = self.worker, self.context, self.worker.job.setup
        if context.restarts:
            found = await fetch(context, setup.network, context.peers, setup.patience_s)
            if found is not None:
                checkpoint: Checkpoint = found.payload
                worker.learner.adopt(checkpoint.parameters, checkpoint.buffers)
                self.batch_sizes.state = checkpoint.batch_sizes
                worker.progress.iteration = checkpoint.iteration
                worker.progress.newest = dict.fromkeys(context.peers, checkpoint.iteration)
        worker.heartbeat.start()
        worker.on("fetch", self._hand_over)
        worker.on("done", lambda message: self._done.add(message.sender))
        for part in (self.batch_sizes, self.gradients, self.transfers):
            if part is not None:
                part.start()

    async def iterate(self) -> None:
        """Compute a gradient, exchange what is to be, and wait until the next may begin."""
        worker, context = self.worker, self.context
        worker.look_around()
        worker.samples, worker.global_batch = await self.batch_sizes.next()
        began_s = context.now_s()
        batch = worker.draw.take(worker.samples)
        loss: float = await worker.timed(
            lambda: partial(Learner.gradient, batch=batch, updates=worker.take_inbox()),
            worker.samples,
            times=worker.job.stands_for,
        )
        self._latest_s.append(context.now_s() - began_s)
        worker.progress.iteration = iteration = worker.progress.iteration + 1
        self.batch_sizes.learnt()
        if self.gradients is not None:
            await self.gradients.learnt(iteration, fmean(self._latest_s))
        elif self.models is not None:
            await self.models.learnt(iteration)
        await self._record(iteration, loss)
        if self.transfers is not None:
            self.transfers.learnt(iteration, loss)
        may_begin, held_back = worker.job.system.synch_training, worker.job.held_back
        held_back.add(worker.node)
        await worker.until(lambda: may_begin(worker.progress))
        held_back.discard(worker.node)

    def _hand_over(self, message: Message) -> None:
        worker = self.worker
        learner = worker.up_to_date
        checkpoint = Checkpoint(
            worker.progress.iteration,
            learner.snapshot(),
            learner.buffers(),
            self.batch_sizes.state,
        )
        worker.send(message.sender, "checkpoint", checkpoint, checkpoint.parameters.nbytes)

    async def _record(self, iteration: int, loss: float) -> None:
        worker, now_s = self.worker, self.context.now_s()
        job, recorder = worker.job, worker.job.recorder
        row = (worker.samples, worker.global_batch, loss, self.context.restarts)
        recorder.learnt(now_s, worker.node, iteration, *row)
        if not iteration % job.setup.evaluate_every and iteration < job.last_iteration:
            found = await self.context.compute(
                partial(Learner.evaluate, updates=worker.take_inbox()),
                cost_s=0.0,
                lane="",
                on=job.learners[worker.node],
            )
            recorder.evaluated(now_s, worker.node, iteration, found)

    async def outlast(self) -> None:
        """Serve the others until they are done, too."""
        if self.transfers is not None:
            await self.worker.until(self.transfers.settled)
        self.worker.tell("done")
        await self.worker.until(lambda: self._done.issuperset(self.worker.there))

"""A worker's program, the same for every system (Hong & Chandra 2021, Fig. 10, Sec. 4.1).

In each iteration a worker computes a gradient, exchanges what its system chooses, and begins the
next when its system allows.

Deviation: a worker that restarts, which the paper leaves open, fetches a peer's model and goes on
in that one's iteration.
"""

from __future__ import annotations

from collections import deque
from inspect import iscoroutinefunction
from operator import methodcaller
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.decentralised.model_exchange.peer import Peer
from workbench.decentralised.recorder import Evaluated, Iteration
from workbench.dlion.programs.batch_sizes import BatchSizes
from workbench.dlion.programs.gradients import GradientExchange
from workbench.dlion.programs.transfers import Transfers
from workbench.dlion.programs.worker import Worker, WorkerJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from workbench.decentralised.learner import PeerLearner
    from workbench.decentralised.node import Batch
    from workbench.runtime import Context, Message, Synchronized

LATEST = 5
"""Iterations that the seconds of one are a mean of, for a link's budget (Sec. 3.3).

Deviation: over how many the paper counts them is not stated.
"""


class WorkerModel(NamedTuple):
    """A worker's model, with all gradients that have arrived, and whether it is held back."""

    parameters: Tensor
    buffers: dict[str, Tensor]
    held_back: bool


class WorkerProgram:
    """Program of a worker, and its model; returns how many iterations it has computed."""

    def __init__(self, job: WorkerJob, state: Synchronized[PeerLearner]) -> None:
        self.job, self.state = job, state
        self.worker: Worker | None = None

    async def __call__(self, context: Context) -> int:
        """Learn until the last iteration, then serve the others until their last ones."""
        self.worker = worker = Worker(self.job, self.state, context)
        batch_sizes = BatchSizes(worker)
        iterations: int = await worker.run(batch_sizes, Exchange(worker, batch_sizes))
        return iterations

    def learnt(self) -> WorkerModel:
        """The model."""
        learner, worker = self.state.value, self.worker
        parameters = learner.snapshot()
        for part, factor in [] if worker is None else worker.inbox:
            part.add_to(parameters.numpy(), factor)
        held_back = worker is not None and worker.held_back
        return WorkerModel(parameters, learner.buffers(), held_back)

    def warm_up(self) -> None:
        """Compute a batch's gradient."""
        learner = self.state.value
        learner.try_out(self.job.setup.held[learner.node][: self.job.batch_size])


class Exchange:
    """What a worker exchanges, as its system says."""

    def __init__(self, worker: Worker, batch_sizes: BatchSizes) -> None:
        self.worker, self.context, self.batch_sizes = worker, worker.context, batch_sizes
        system = worker.job.system
        self.transfers = None if system.transfer is None else Transfers(worker, system.transfer)
        self.gradients, self.models = None, None
        if system.generate_partial_gradients is not None:
            self.gradients = GradientExchange(worker, system.generate_partial_gradients)
        elif system.exchange_models is not None:
            self.models = system.exchange_models(Peer(worker))
            if not iscoroutinefunction(getattr(self.models, "learnt", None)):
                raise TypeError(
                    f"exchange_models of {system.title} returned {type(self.models).__name__}; "
                    "give an object with `async def learnt(self, iteration)`, which takes the "
                    "worker's step"
                )
        self._latest_s: deque[float] = deque(maxlen=LATEST)

    async def begin(self) -> None:
        """Listen; after a restart, fetch a model."""
        worker, context = self.worker, self.context
        if context.restarts and (checkpoint := await worker.rejoin(context.peers)) is not None:
            self.batch_sizes.state = checkpoint.more
            worker.progress.iteration = checkpoint.at
            worker.progress.newest = dict.fromkeys(context.peers, checkpoint.at)
            worker.heartbeat.sent["iteration"] = checkpoint.at
        worker.start_heartbeats()
        worker.on("fetch", self._hand_over)
        worker.on("done", lambda message: worker.heartbeat.note(message.sender, "done", 1))
        for part in (self.batch_sizes, self.gradients, self.transfers):
            if part is not None:
                part.start()

    def work(self, batch: Batch) -> Callable[[PeerLearner], Any]:
        """Compute a gradient, with all that has arrived."""
        self.worker.samples = len(batch)
        return methodcaller("gradient", batch=batch, updates=self.worker.take_inbox())

    async def learnt(self, loss: float, took_s: float) -> None:
        """Exchange what is to be, and wait until the next iteration may begin."""
        worker = self.worker
        self._latest_s.append(took_s)
        worker.progress.iteration = iteration = worker.progress.iteration + 1
        if self.gradients is not None:
            await self.gradients.learnt(iteration, fmean(self._latest_s))
        elif self.models is not None:
            await self.models.learnt(iteration)
        await self._record(iteration, loss)
        if self.transfers is not None:
            self.transfers.learnt(iteration, loss)
        worker.heartbeat.sent["iteration"] = iteration
        worker.held_back = True
        await worker.until(self._may_begin)
        worker.held_back = False

    def _may_begin(self) -> bool:
        if self.gradients is not None:
            self.gradients.count_undelivered()
        return self.worker.job.system.synch_training(self.worker.progress)

    async def epoch_ended(self) -> None:
        """Count no epochs."""

    def _hand_over(self, message: Message) -> None:
        worker = self.worker
        worker.hand_over(message.sender, worker.progress.iteration, self.batch_sizes.state)

    async def _record(self, iteration: int, loss: float) -> None:
        worker, context, job = self.worker, self.context, self.worker.job
        row = (worker.samples, worker.global_batch, loss, context.restarts)
        context.record(Iteration(iteration, *row))
        if not iteration % job.setup.evaluate_every and iteration < job.last_iteration:
            evaluation = await worker.evaluate(updates=worker.take_inbox())
            context.record(Evaluated(iteration, evaluation))

    async def outlast(self) -> int:
        """Serve the others until they are done, too."""
        worker, heartbeat = self.worker, self.worker.heartbeat
        if self.transfers is not None:
            await worker.until(self.transfers.settled)
        heartbeat.sent["done"] = 1  # in case that all messages are lost
        worker.tell("done")
        await worker.until(lambda: all(heartbeat.newest(peer, "done") > 0 for peer in worker.there))
        return worker.progress.iteration

"""The loop of a training without a server, for all sources, exchanges and synchronisation rules.

A worker has a `Source` of batches and an `Exchange`; its `Synchronisation` says when it may begin
the next iteration.

Deviation: restarts, which papers leave open. A worker that restarts fetches a peer's model, and
goes on from its progress; if no peer answers, it begins with the first model.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from workbench.decentralised.exchange import Exchange, Step
from workbench.decentralised.learner import PeerLearner

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from workbench.decentralised.learner import Model
    from workbench.decentralised.worker import Worker
    from workbench.runtime import Message

    Batch = NDArray[np.int64]


class Checkpoint(NamedTuple):
    """Model and progress from which a worker that rejoins goes on."""

    iteration: int
    model: Model
    source: Any  # state of the sender's source
    exchange: Any  # state of its exchange


class Source(Protocol):
    """A source of batches."""

    @property
    def over(self) -> bool:
        """Whether the worker has finished."""

    @property
    def label(self) -> str:
        """Name of the next batch in the trace."""

    @property
    def epoch_over(self) -> bool:
        """Whether the latest batch was the last of an epoch."""

    def start(self) -> None:
        """Listen to the others."""

    async def next(self) -> Batch | None:
        """Choose the next batch; None in an epoch without any."""

    async def after_step(self, step: Step, samples: int) -> None:
        """Count a step, and record it."""

    async def after_epoch(self, exchange: Exchange) -> None:
        """Exchange at the end of an epoch, and record it."""

    def state(self) -> Any:
        """State of the source, for a worker that rejoins."""

    async def resume(self, state: Any) -> None:
        """Go on from the state of a peer's source; None where no peer has answered."""


async def run(worker: Worker, source: Source, exchange: Exchange) -> Any:
    """Learn until the source is over; return what `Exchange.drain` does."""
    await _begin(worker, source, exchange)
    context, progress = worker.context, worker.progress
    while not source.over:
        batch = await source.next()
        if batch is not None:
            began_s, work = context.now_s(), partial(_work, exchange, batch)
            times = worker.job.iteration_factor
            loss = await worker.compute(work, len(batch), source.label, times)
            progress.iteration = iteration = progress.iteration + 1
            step = Step(iteration, loss, context.now_s() - began_s)
            await exchange.after_step(step)
            await source.after_step(step, len(batch))
            worker.heartbeat.sent["iteration"] = iteration
            worker.held_back = True
            await worker.until(lambda: worker.synchronisation(progress))
            worker.held_back = False
        if source.epoch_over:
            await source.after_epoch(exchange)
    return await exchange.drain()


async def _begin(worker: Worker, source: Source, exchange: Exchange) -> None:
    """Listen, send heartbeats; after a restart, fetch a checkpoint first."""
    checkpoint, restarts = None, worker.context.restarts
    if restarts:
        checkpoint = await _rejoin(worker)
        exchange.resume(None if checkpoint is None else checkpoint.exchange)
    if checkpoint is not None:
        worker.resume(checkpoint.iteration)
    worker.listen()
    worker.on("fetch", partial(_send_checkpoint, worker, source, exchange))
    source.start()
    await exchange.begin()
    if restarts:
        await source.resume(None if checkpoint is None else checkpoint.source)


def _work(exchange: Exchange, batch: Batch) -> Callable[[PeerLearner], float]:
    """Return the computation on a batch, after adding the updates that have arrived by now."""
    method = PeerLearner.gradient if exchange.takes_step else PeerLearner.learn
    return partial(method, batch=batch, updates=exchange.before_step())


async def _rejoin(worker: Worker) -> Checkpoint | None:
    """Ask peers with links both ways for a checkpoint, one after the other."""
    for peer in worker.context.peers:
        if peer not in worker.heartbeat.sources:
            continue
        worker.tell("fetch", to=peer)
        message = await worker.receive("checkpoint", worker.patience_s, peer)
        if message is not None:
            checkpoint: Checkpoint = message.payload
            worker.learner.adopt(*checkpoint.model)
            return checkpoint
    return None


def _send_checkpoint(worker: Worker, source: Source, exchange: Exchange, message: Message) -> None:
    state = exchange.state()  # which may bring the model up to date
    model = worker.up_to_date.snapshot()
    checkpoint = Checkpoint(worker.progress.iteration, model, source.state(), state)
    worker.send_model(message.sender, "checkpoint", checkpoint)

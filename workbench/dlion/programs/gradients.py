"""A worker's exchange of gradients and weights (Hong & Chandra 2021, Fig. 10, Sec. 4.1).

Peers' gradients count from when they arrive; they are added to the weights before these are next
looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.decentralised.exchange import Exchange, Step
from workbench.dlion.algorithms.weighted_update import WEIGHTINGS, equal
from workbench.dlion.gradient import Gradient, Links, Monitor
from workbench.dlion.part import Part
from workbench.dlion.programs.transfers import Transfers
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from workbench.decentralised.job import Progress
    from workbench.decentralised.learner import Updates
    from workbench.decentralised.worker import Worker
    from workbench.dlion.algorithms.system import System
    from workbench.dlion.gradient import PartialGradients
    from workbench.dlion.programs.batch_sizes import BatchSizes
    from workbench.runtime import Message

LATEST = 5
"""Latest iterations over which the seconds of one are averaged, for a link's budget (Sec. 3.3).

Deviation: over how many the paper counts them is not stated.
"""

NOTHING = Part(())


class Update(NamedTuple):
    """A part of a gradient, as it is sent to a peer."""

    iteration: int
    samples: int  # of the batch
    part: Part


class GradientExchange(Exchange):
    """A worker's exchange by its system: parts of gradients, and the best weights."""

    takes_step = True

    def __init__(self, worker: Worker, system: System, batch_sizes: BatchSizes) -> None:
        super().__init__(worker)
        self._system, self._batch_sizes = system, batch_sizes
        generate = system.generate_partial_gradients
        # A hook may remember something: every worker has its own.
        made: Any = generate() if isinstance(generate, type) else deepcopy(generate)
        self._generate: PartialGradients = made
        self._weighting = WEIGHTINGS[system.batching.weighting] if system.batching else equal
        self._transfers = None if system.transfer is None else Transfers(worker, system.transfer)
        self._monitor = Monitor(worker.node, worker.context.watch())
        self._unanswered: dict[int, tuple[int, float]] = {}  # newest iteration, by peer, and when
        self._latest_s: deque[float] = deque(maxlen=LATEST)

    async def begin(self) -> None:
        """Listen to the peers."""
        self.worker.on("gradient", self._take)
        self.worker.on("arrived", self._arrived)
        if self._transfers is not None:
            self._transfers.start()

    def before_step(self) -> Updates:
        """Return the gradients that have arrived."""
        return self.worker.take_inbox()

    def may_begin(self, progress: Progress) -> bool:
        """Whether the system allows the next iteration."""
        self._count_undelivered()
        return self._system.synch_training(progress)

    async def after_step(self, step: Step) -> None:
        """Send the gradient's parts, and apply the own; compare losses where that is due."""
        worker, iteration = self.worker, step.iteration
        self._latest_s.append(step.seconds)
        gradients = worker.learner.flat.gradients
        values = gradients.numpy().view()
        values.flags.writeable = False
        factor = self._factor(self._batch_sizes.samples)
        gradient = Gradient(values, worker.job.variables, -factor, iteration, self._weights)
        times = worker.job.iteration_factor
        bandwidth_bps = self._monitor.bandwidth_bps(worker.alive)
        links = Links(worker.node, bandwidth_bps, fmean(self._latest_s) / times)
        parts = self._checked(self._generate(gradient, links))
        for peer in worker.alive:
            part = parts.get(peer)
            update = Update(iteration, self._batch_sizes.samples, NOTHING if part is None else part)
            if part is None:  # the peer may wait for this iteration
                worker.tell("gradient", update, to=peer)
            else:
                # Weight variables travel one by one (Sec. 4.2).
                sizes = [piece.size_bytes * times for piece in part.pieces]
                worker.send(peer, "gradient", update, part.size_bytes * times, sizes)
            if self._system.acknowledged:
                self._unanswered[peer] = iteration, worker.context.now_s()
        self._count_undelivered()
        own = parts.get(worker.node)
        if own is None:
            worker.learner.flat.parameters.add_(gradients, alpha=factor)
        else:
            worker.inbox.append((own, factor))
        if self._transfers is not None:
            self._transfers.after_step(iteration, step.loss)

    def _checked(self, parts: object) -> Mapping[int, Part | None]:
        hook = f"generate_partial_gradients of {self._system.title}"
        if not isinstance(parts, Mapping):
            raise TypeError(
                f"{hook} returned {type(parts).__name__}; give the part for each peer, such as "
                "dict.fromkeys(links.peers, gradient.whole)"
            )
        for peer, part in parts.items():
            if peer not in range(self.worker.nodes):
                raise UserError(f"{hook} has a part for {peer!r}; links.peers has who is there")
            if not isinstance(part, Part | None):
                raise TypeError(
                    f"{hook} has {type(part).__name__} for worker {peer}; give gradient.whole, "
                    "gradient.part(mask) or None"
                )
        return parts

    def _weights(self) -> NDArray[np.float32]:
        weights: NDArray[np.float32] = self.worker.up_to_date.flat.parameters.numpy().view()
        weights.flags.writeable = False
        return weights

    def _factor(self, samples: int) -> float:
        """Factor by which a gradient from a batch of this size is added."""
        sizes, worker = self._batch_sizes, self.worker
        weight = self._weighting(samples, sizes.samples, sizes.global_batch, worker.nodes)
        return -worker.job.learning_rate * weight

    def _take(self, message: Message) -> None:
        update: Update = message.payload
        self.worker.inbox.append((update.part, self._factor(update.samples)))
        self.worker.note_arrival(message, update.iteration, update.part.values)
        if self._system.acknowledged:
            self.worker.tell("arrived", update.iteration, to=message.sender)

    def _arrived(self, message: Message) -> None:
        if self._unanswered.get(message.sender, (0,))[0] == message.payload:
            del self._unanswered[message.sender]
        self._count_undelivered()

    def _count_undelivered(self) -> None:
        """Count the alive peers that may still acknowledge a gradient."""
        alive, has_answered = self.worker.alive, self.worker.heartbeat.has_answered
        self.worker.progress.undelivered = sum(
            peer in alive and not has_answered(peer, sent_s)
            for peer, (_, sent_s) in self._unanswered.items()
        )

    async def drain(self) -> int:
        """Serve the others until all have finished or are gone; return the last iteration."""
        if self._transfers is not None:
            await self.worker.until(self._transfers.settled)
        iterations: int = await super().drain()
        return iterations

"""The exchange of gradients at one worker (Hong & Chandra 2021, Sec. 4.1).

Peers' gradients count from when they arrive; they are added to the weights before these are next
looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.decentralised.gradient_exchange.gradient import Gradient, Links, Monitor
from workbench.decentralised.gradient_exchange.part import Part
from workbench.dlion.algorithms.weighted_update import WEIGHTINGS, equal
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from workbench.decentralised.gradient_exchange.gradient import PartialGradients
    from workbench.dlion.programs.worker import Worker
    from workbench.runtime import Message

NOTHING = Part(())


class Update(NamedTuple):
    """What a peer is sent of a gradient."""

    iteration: int
    samples: int  # of the batch
    part: Part


class GradientExchange:
    """Sends parts of a worker's gradients and takes its peers'."""

    def __init__(
        self, worker: Worker, generate: PartialGradients | Callable[[], PartialGradients]
    ) -> None:
        system = worker.job.system
        self._worker, self._acknowledged = worker, system.acknowledged
        # A hook may remember something: every worker has its own.
        made: Any = generate() if isinstance(generate, type) else deepcopy(generate)
        self._generate: PartialGradients = made
        self._weighting = WEIGHTINGS[system.batching.weighting] if system.batching else equal
        self._monitor = Monitor(worker.node, worker.context.watch())
        self._unanswered: dict[int, tuple[int, float]] = {}  # newest iteration, by peer, and when

    def start(self) -> None:
        """Listen to the peers."""
        self._worker.on("gradient", self._take)
        self._worker.on("arrived", self._arrived)

    async def learnt(self, iteration: int, iteration_s: float) -> None:
        """Send the gradient's parts, and apply the own."""
        worker = self._worker
        gradients = worker.learner.flat.gradients
        values = gradients.numpy().view()
        values.flags.writeable = False
        factor = self._factor(worker.samples)
        gradient = Gradient(values, worker.job.variables, -factor, iteration, self._weights)
        stands_for = worker.job.stands_for
        bandwidth_bps = self._monitor.bandwidth_bps(worker.there)
        links = Links(worker.node, bandwidth_bps, iteration_s / stands_for)
        parts = self._checked(self._generate(gradient, links))
        for peer in worker.there:
            part = parts.get(peer)
            update = Update(iteration, worker.samples, NOTHING if part is None else part)
            if part is None:  # the peer may wait for this iteration
                worker.tell("gradient", update, to=peer)
            else:
                worker.send(peer, "gradient", update, part.size_bytes * stands_for)
            if self._acknowledged:
                self._unanswered[peer] = iteration, worker.context.now_s()
        self.count_undelivered()
        own = parts.get(worker.node)
        if own is None:
            worker.learner.flat.parameters.add_(gradients, alpha=factor)
        else:
            worker.inbox.append((own, factor))

    def _checked(self, parts: object) -> Mapping[int, Part | None]:
        job = self._worker.job
        hook = f"generate_partial_gradients of {job.system.title}"
        if not isinstance(parts, Mapping):
            raise TypeError(
                f"{hook} returned {type(parts).__name__}; give the part for each peer, such as "
                "dict.fromkeys(links.peers, gradient.whole)"
            )
        for peer, part in parts.items():
            if peer not in range(job.setup.nodes):
                raise UserError(f"{hook} has a part for {peer!r}; links.peers has who is there")
            if not isinstance(part, Part | None):
                raise TypeError(
                    f"{hook} has {type(part).__name__} for worker {peer}; give gradient.whole, "
                    "gradient.part(mask) or None"
                )
        return parts

    def _weights(self) -> NDArray[np.float32]:
        weights: NDArray[np.float32] = self._worker.up_to_date.flat.parameters.numpy().view()
        weights.flags.writeable = False
        return weights

    def _factor(self, samples: int) -> float:
        """What a gradient from a batch of this size is multiplied by, and then added."""
        job = self._worker.job
        own, workers = self._worker.samples, job.setup.nodes
        return -job.setup.sgd.learning_rate * self._weighting(
            samples, own, self._worker.global_batch, workers
        )

    def _take(self, message: Message) -> None:
        update: Update = message.payload
        self._worker.inbox.append((update.part, self._factor(update.samples)))
        self._worker.heard(message, update.iteration, update.part.values)
        if self._acknowledged:
            self._worker.tell("arrived", update.iteration, to=message.sender)

    def _arrived(self, message: Message) -> None:
        if self._unanswered.get(message.sender, (0,))[0] == message.payload:
            del self._unanswered[message.sender]
        self.count_undelivered()

    def count_undelivered(self) -> None:
        """Count the peers that are there and may have to say that something arrived."""
        there, has_answered = self._worker.there, self._worker.heartbeat.has_answered
        self._worker.progress.undelivered = sum(
            peer in there and not has_answered(peer, sent_s)
            for peer, (_, sent_s) in self._unanswered.items()
        )

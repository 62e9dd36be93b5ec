"""What device, edge and cloud share: passes through layers, messages, and the learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from workbench.hiertrain.costs.problem import TIERS, Problem
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.hiertrain.programs.learning import TierLearner
    from workbench.runtime import Context

DIRECTIONS = ("forward", "backward")


class Request(NamedTuple):
    """Samples `first` to `last - 1` of an iteration's batch, counted from 0."""

    iteration: int
    first: int
    last: int


Samples = Callable[[Request], Any]
"""Gives samples as features before layer 1."""


class Idle:
    """Learns nothing: only bytes move and time passes."""

    def nothing(self, *_: Any) -> Any:
        """Do nothing, whatever is given."""

    def two(self, *_: Any) -> tuple[Any, Any]:
        """Do nothing, where two values are returned."""
        return None, None

    begin = forward = backward = join = quantise = gradients = average = part = step = nothing
    split = loss = two


Learning = Union["TierLearner", Idle]
"""A tier's side of the learning."""


@dataclass(frozen=True)
class Worker:
    """A device, the edge or the cloud in a training: what its program computes and sends.

    Attributes
    ----------
    tier, node
        What it is, and where it runs; workers are equal by these.
    learner
        In its own program; all others know it as `Idle`.
    problem
        Its seconds and the model's bytes; a device's as if it had all samples.
    sources
        Nodes that hand out samples: its own of a device, those of all devices of edge and cloud.
    share
        Of its tier's samples: 1, or less for each of several devices.
    has_neighbour
        Whether its node runs two workers, a device and the edge or the cloud.
    """

    tier: str
    node: int
    problem: Problem = field(compare=False)
    iterations: int = field(compare=False)
    sources: Sequence[int] = field(compare=False)
    share: float = field(default=1.0, compare=False)
    has_neighbour: bool = field(default=False, compare=False)
    learner: Learning = field(default_factory=Idle, compare=False)

    async def take_samples(self, context: Context, iteration: int, samples: range) -> Any:
        """Request samples of an iteration's batch and wait for them; do nothing if it takes none.

        Each source sends its share of them.
        """
        if not samples:
            return None
        wanted = Request(iteration, samples.start, samples.stop)
        for source in self.sources:
            context.send(source, Message(context.node, "request", wanted, control=True))
        arrived = [await context.receive("samples", sender=source) for source in self.sources]
        return self.learner.join([message.payload for message in arrived])

    async def run(
        self, context: Context, direction: str, layers: tuple[int, int], samples: int, tensors: Any
    ) -> Any:
        """Run layers ``"forward"`` or ``"backward"`` of its share of the samples.

        Without layers or samples, at once.
        """
        first, last = layers
        if first > last or not samples:
            return tensors
        place = DIRECTIONS.index(direction), TIERS.index(self.tier)
        own = self.share * samples
        passed = self.learner.forward if direction == "forward" else self.learner.backward
        return await context.compute(
            partial(passed, first, last, tensors),
            cost_s=float(own * self.problem.span_s[*place, first - 1, last]),
            lane=direction,
            label=f"layers {first}-{last}, {own:g} samples",
        )

    def loss(self, context: Context, features: Any) -> Any:
        """Record the loss; return its gradient by the model's outputs."""
        loss, gradient = self.learner.loss(features)
        if loss is not None:
            context.record(loss)
        return gradient

    async def update(self, context: Context, averaged: Any, cost_s: float) -> None:
        """Update the weights; record the model at the end of an epoch."""
        model = await context.compute(
            partial(self.learner.step, averaged), cost_s=cost_s, lane="update", label="weights"
        )
        if model is not None:
            context.record(model)

    def send(
        self,
        context: Context,
        to: Sequence[Worker],
        topic: str,
        payload: Any,
        size_bytes: float,
        *,
        shared: bool = True,
    ) -> None:
        """Send to each worker of a tier, by its share of the samples or the whole size.

        What has no bytes is free, as in the cost model.
        """
        for other in to:
            size = float(self.share * other.share * size_bytes if shared else size_bytes)
            name = self._topic(topic, other)
            context.send(other.node, Message(context.node, name, payload, size, control=size == 0))

    async def receive(self, context: Context, senders: Sequence[Worker], topic: str) -> list[Any]:
        """Wait for what each worker of a tier sends."""
        return [
            (await context.receive(other._topic(topic, self), sender=other.node)).payload
            for other in senders
        ]

    def _topic(self, topic: str, to: Worker) -> str:
        """Topic that is unique to a pair of workers, even where nodes have several workers."""
        crowded = self.has_neighbour or to.has_neighbour
        return f"{topic}, {self.tier} to {to.tier}" if crowded else topic


Team = Mapping[str, Sequence[Worker]]
"""Workers by tier: one each, or several devices."""


async def average(
    context: Context, worker: Worker, hub: Worker, members: Mapping[Worker, tuple[int, float]]
) -> Any:
    """Average gradients on the hub, and return the mean.

    `members` are the other workers, with the last layer and the bytes of their gradients.
    """
    learner = worker.learner
    if worker != hub:
        last, size_bytes = members[worker]
        own = learner.gradients(last)
        worker.send(context, [hub], "weight gradients", own, size_bytes, shared=False)
        (averaged,) = await worker.receive(context, [hub], "averaged gradients")
        return averaged
    averaged = learner.average(await worker.receive(context, [*members], "weight gradients"))
    for member, (last, size_bytes) in members.items():
        part = learner.part(averaged, last)
        worker.send(context, [member], "averaged gradients", part, size_bytes, shared=False)
    return averaged

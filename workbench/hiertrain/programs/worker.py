"""What device, edge and cloud share: passes through layers, messages, and the learning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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

    def __getattr__(self, name: str) -> Callable[..., Any]:
        nothing = (None, None) if name == "split" else None
        return lambda *_: nothing


Learning = Union["TierLearner", Idle]
"""A tier's side of the learning."""


@dataclass(frozen=True, eq=False)
class Worker:
    """A tier in a training: what its program computes and sends."""

    tier: str
    learner: Learning
    problem: Problem
    iterations: int
    source: int  # the node that hands out samples

    async def take_samples(self, context: Context, iteration: int, samples: range) -> Any:
        """Request samples of an iteration's batch, and wait for them; none for none."""
        if not samples:
            return None
        wanted = Request(iteration, samples.start, samples.stop)
        context.send(self.source, Message(context.node, "request", wanted, control=True))
        return (await context.receive("samples", sender=self.source)).payload

    async def run(
        self, context: Context, direction: str, layers: tuple[int, int], samples: int, tensors: Any
    ) -> Any:
        """Run layers ``"forward"`` or ``"backward"``; without layers or samples, at once."""
        first, last = layers
        if first > last or not samples:
            return tensors
        place = DIRECTIONS.index(direction), TIERS.index(self.tier)
        return await context.compute(
            partial(getattr(self.learner, direction), first, last, tensors),
            cost_s=float(samples * self.problem.span_s[*place, first - 1, last]),
            lane=direction,
            label=f"layers {first}-{last}, {samples} samples",
        )

    async def update(self, context: Context, averaged: Any, cost_s: float) -> None:
        """Update the weights."""
        ends_s = context.now_s() + cost_s
        await context.compute(
            partial(self.learner.step, averaged, ends_s),
            cost_s=cost_s,
            lane="update",
            label="weights",
        )


def send(context: Context, tier: str, topic: str, payload: Any, size_bytes: float) -> None:
    """Send to a tier; what has no bytes is free, as in the cost model."""
    context.send(
        TIERS.index(tier),
        Message(context.node, topic, payload, float(size_bytes), control=size_bytes == 0),
    )

"""What the programs of device, edge and cloud share: the training job, and the learning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from workbench.hiertrain.costs.policy import Policy
from workbench.hiertrain.costs.problem import TIERS, Problem
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.hiertrain.programs.learning import TierLearner
    from workbench.runtime import Context


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
        return self._pair if name == "split" else self._nothing

    def _nothing(self, *arguments: object) -> None:
        del arguments

    def _pair(self, *arguments: object) -> tuple[None, None]:
        del arguments
        return None, None


Learner = Union["TierLearner", Idle]
"""A tier's side of the learning."""


@dataclass(frozen=True, eq=False)
class Job:
    """A training job: what all programs of a run know, but for the learning."""

    problem: Problem
    policy: Policy
    iterations: int
    source: int  # the node that hands out samples

    async def take_samples(self, context: Context, iteration: int, samples: range) -> Any:
        """Request samples of an iteration's batch, and wait for them; none for none."""
        if not samples:
            return None
        wanted = Request(iteration, samples.start, samples.stop)
        context.send(self.source, Message(context.node, "request", wanted, control=True))
        return (await context.receive("samples", sender=self.source)).payload

    async def forward(
        self,
        context: Context,
        learner: Learner,
        layers: tuple[int, int],
        samples: int,
        features: Any,
    ) -> Any:
        """Run layers forward; without layers or samples, at once."""
        first, last = layers
        if first > last or not samples:
            return features
        span_s = self.problem.forward_span_s[TIERS[context.node]][first - 1, last]
        return await context.compute(
            partial(learner.forward, first, last, features),
            cost_s=float(samples * span_s),
            lane="forward",
            label=f"layers {first}-{last}, {samples} samples",
        )

    async def backward(
        self,
        context: Context,
        learner: Learner,
        layers: tuple[int, int],
        samples: int,
        gradient: Any,
    ) -> Any:
        """Run layers backward, as `forward`."""
        first, last = layers
        if first > last or not samples:
            return gradient
        span_s = self.problem.backward_span_s[TIERS[context.node]][first - 1, last]
        return await context.compute(
            partial(learner.backward, first, last, gradient),
            cost_s=float(samples * span_s),
            lane="backward",
            label=f"layers {first}-{last}, {samples} samples",
        )

    async def update(
        self, context: Context, learner: Learner, averaged: Any, cost_s: float
    ) -> None:
        """Update the weights."""
        ends_s = context.now_s() + cost_s
        await context.compute(
            partial(learner.step, averaged, ends_s), cost_s=cost_s, lane="update", label="weights"
        )


def send(context: Context, tier: str, topic: str, payload: Any, size_bytes: float) -> None:
    """Send to a tier; what has no bytes is free, as in the cost model."""
    context.send(
        TIERS.index(tier),
        Message(context.node, topic, payload, float(size_bytes), control=size_bytes == 0),
    )

"""Real-time profiling: what links and worker take, from what they did (Cai et al. 2021, IV-A).

Each direction is a line, ``seconds = overhead_s + bytes * 8 / bandwidth_bps``, fitted by least
squares to the transfers of the last iterations. Nothing here knows a link, real or simulated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from workbench.dynacomm.costs import LayerCosts
from workbench.dynacomm.rates import Moments, Rate, fit, moments

if TYPE_CHECKING:
    from workbench.dynacomm.job import Job
from workbench.dynacomm.programs import Observed


@dataclass(frozen=True)
class Seen:
    """What is kept of one iteration."""

    pulls: Moments
    pushes: Moments
    computed_s: tuple[float, float]


@dataclass(frozen=True)
class Profile:
    """What a worker believes of its links and of itself; `step` makes the next one.

    Attributes
    ----------
    pull, push
        The two directions.
    slowness
        Seconds that computing takes, over those of the job at speed 1.
    nominal_s
        Seconds of all layers forward and backward at speed 1.
    window
        Iterations that an estimate looks back on.
    recent
        What was seen of them.
    """

    pull: Rate
    push: Rate
    nominal_s: tuple[float, float]
    slowness: float = 1.0
    window: int = 1
    recent: tuple[Seen, ...] = ()

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window is {self.window}; it must be at least 1 iteration")

    @classmethod
    def before(cls, job: Job, pull: Rate, push: Rate | None = None, window: int = 1) -> Profile:
        """What is believed before anything was seen; `push` is as `pull` by default."""
        nominal_s = (float(job.forward_s.sum()), float(job.backward_s.sum()))
        return cls(pull, pull if push is None else push, nominal_s, window=window)

    def costs(self, job: Job) -> LayerCosts:
        """What the planner plans with.

        Every server sends its part of a layer on a link of its own, so a layer takes what its
        largest part takes: exact where all layers are split evenly.

        Deviation: one Δt for both directions, as the paper has it, is the mean of the two.
        """
        share = job.shards.share.max(axis=0)
        return LayerCosts(
            pull_s=job.pull_bytes * share * 8 / self.pull.bandwidth_bps,
            forward_s=job.forward_s * self.slowness,
            backward_s=job.backward_s * self.slowness,
            push_s=job.push_bytes * share * 8 / self.push.bandwidth_bps,
            overhead_s=(self.pull.overhead_s + self.push.overhead_s) / 2,
        )


def step(state: Profile, observed: Observed) -> Profile:
    """Take an iteration in and estimate anew."""
    seen = Seen(
        moments(observed.pulls),
        moments(observed.pushes),
        (observed.forward_s, observed.backward_s),
    )
    recent = (*state.recent, seen)[-state.window :]
    return replace(
        state,
        recent=recent,
        pull=fit(reduce(Moments.__add__, (one.pulls for one in recent)), state.pull),
        push=fit(reduce(Moments.__add__, (one.pushes for one in recent)), state.push),
        slowness=_slowness(recent, state),
    )


def _slowness(recent: Iterable[Seen], state: Profile) -> float:
    """Least squares of what computing took over what it takes at speed 1."""
    pairs = [pair for seen in recent for pair in zip(seen.computed_s, state.nominal_s, strict=True)]
    squares = sum(nominal_s**2 for _, nominal_s in pairs)
    took = sum(seconds * nominal_s for seconds, nominal_s in pairs)
    return took / squares if took > 0 and squares > 0 else state.slowness

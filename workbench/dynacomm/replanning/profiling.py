"""Real-time profiling of links and worker by what they did (Cai et al. 2021, IV-A).

Each direction of the network is a line, ``seconds = overhead_s + bytes * 8 / bandwidth_bps``,
fitted by least squares to the transfers of the last iterations; each layer's computation, forward
and backward apart, is its part of the segments that it was computed in.

Deviation: the paper reads every layer's seconds off its framework's profiler, switched on once an
epoch. Here segments are timed as they run; layers that are always computed together keep the
proportions of the estimate before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from workbench.dynacomm.costs.iteration import FloatArray, LayerCosts
from workbench.dynacomm.replanning.layer_seconds import estimate
from workbench.dynacomm.replanning.rates import Moments, Rate, fit, moments
from workbench.errors import UserError

if TYPE_CHECKING:
    from workbench.dynacomm.programs.job import Job
    from workbench.dynacomm.programs.worker_and_server import Computed, Moved, Observed


@dataclass(frozen=True)
class Seen:
    """Observations kept of one iteration."""

    pulls: Moments
    pushes: Moments
    forward: tuple[Computed, ...]
    backward: tuple[Computed, ...]


@dataclass(frozen=True, eq=False)
class Profile:
    """Estimates of one worker: its links and its computation; `step` makes the next one."""

    pull: Rate
    push: Rate
    forward_s: FloatArray  # of each layer, (L,)
    backward_s: FloatArray  # (L,)
    window: int = 1  # iterations that an estimate looks back on
    recent: tuple[Seen, ...] = ()  # those iterations

    def __post_init__(self) -> None:
        if self.window < 1:
            raise UserError(f"window is {self.window}; it must be at least 1 iteration")

    @classmethod
    def before(cls, job: Job, pull: Rate, push: Rate | None = None, window: int = 1) -> Profile:
        """Estimate before any observation: the job's computation at speed 1."""
        push = pull if push is None else push
        return cls(pull, push, job.forward_s, job.backward_s, window=window)

    def costs(self, job: Job) -> LayerCosts:
        """What the planner plans with.

        Every server sends its part of a layer on a link of its own, so a layer takes what its
        largest part takes: exact where all layers are split evenly.

        Deviation: Δt, which the paper has once, is the mean of both directions.
        """
        share = job.shards.share.max(axis=0)
        tensors = np.array(job.tensors or [0] * job.layers)
        return LayerCosts(
            pull_s=job.pull_bytes * share * 8 / self.pull.bandwidth_bps
            + tensors * self.pull.tensor_s,
            forward_s=self.forward_s,
            backward_s=self.backward_s,
            push_s=job.push_bytes * share * 8 / self.push.bandwidth_bps
            + tensors * self.push.tensor_s,
            overhead_s=(self.pull.overhead_s + self.push.overhead_s) / 2,
        )


def step(state: Profile, observed: Observed) -> Profile:
    """Estimate anew with one more iteration."""
    seen = Seen(
        _moments(observed.pulls, state.pull),
        _moments(observed.pushes, state.push),
        observed.forward,
        observed.backward,
    )
    recent = (*state.recent, seen)[-state.window :]
    return replace(
        state,
        recent=recent,
        pull=fit(reduce(Moments.__add__, (one.pulls for one in recent)), state.pull),
        push=fit(reduce(Moments.__add__, (one.pushes for one in recent)), state.push),
        forward_s=estimate(state.forward_s, chain.from_iterable(one.forward for one in recent)),
        backward_s=estimate(state.backward_s, chain.from_iterable(one.backward for one in recent)),
    )


def _moments(moved: tuple[Moved, ...], rate: Rate) -> Moments:
    """Moments of transfers, without the time of their tensors."""
    return moments(
        (one.size_bytes, max(0.0, one.seconds - one.tensors * rate.tensor_s)) for one in moved
    )

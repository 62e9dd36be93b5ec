"""Real-time profiling of links and worker, and plans made from it (Cai et al. 2021, IV-A, IV-C).

Each direction of the network is a line, ``seconds = overhead_s + bytes * 8 / bandwidth_bps``,
fitted by least squares to the transfers of the last iterations; each layer's computation, forward
and backward apart, is its part of the segments that it was computed in.

Deviation: the paper reads every layer's seconds off its framework's profiler, switched on once an
epoch. Here segments are timed as they run; layers that are always computed together keep the
proportions of the estimate before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from workbench.dynacomm.algorithms import Planner
from workbench.dynacomm.algorithms.dynacomm import dynacomm
from workbench.dynacomm.costs.iteration import FloatArray, LayerCosts
from workbench.dynacomm.costs.plan import Plan
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.worker_and_server import Computed, Moved, Observed

EPOCH = 195
"""Iterations between two plans by default: CIFAR-10 at a total batch of 256 (IV-C)."""

PLANNING_S = 0.01159 + 0.01156
"""What planning forward and backward for ResNet-152 took the paper's workers (Table I)."""

ONE_SIZE = 0.01
"""Sizes that differ by less, as a share of the largest, cannot separate overhead and bandwidth."""


@dataclass(frozen=True)
class Rate:
    """Seconds of a transfer in one direction: a line over its bytes.

    `tensor_s`, what each tensor adds, is taken as known: a few transfers cannot separate it from
    bytes, which rise with tensors.
    """

    overhead_s: float
    bandwidth_bps: float  # infinite where bytes take no time
    tensor_s: float = 0.0

    def transfer_s(self, size_bytes: float) -> float:
        """Seconds of one transmission, its overhead included, its tensors not."""
        return self.overhead_s + size_bytes * 8 / self.bandwidth_bps


@dataclass(frozen=True)
class Moments:
    """Sums of least squares over some transfers; two add up to those of both.

    `bytes_bytes` and `bytes_s` are sums of squared deviations of the sizes, and of their products
    with those of the seconds.
    """

    count: int = 0
    mean_bytes: float = 0.0
    mean_s: float = 0.0
    bytes_bytes: float = 0.0
    bytes_s: float = 0.0
    least_bytes: float = math.inf
    most_bytes: float = 0.0

    def __add__(self, other: Moments) -> Moments:
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        by_bytes, by_s = other.mean_bytes - self.mean_bytes, other.mean_s - self.mean_s
        share = other.count / count
        return Moments(
            count,
            self.mean_bytes + by_bytes * share,
            self.mean_s + by_s * share,
            self.bytes_bytes + other.bytes_bytes + by_bytes**2 * self.count * share,
            self.bytes_s + other.bytes_s + by_bytes * by_s * self.count * share,
            min(self.least_bytes, other.least_bytes),
            max(self.most_bytes, other.most_bytes),
        )


def moments(transfers: Iterable[tuple[float, float]]) -> Moments:
    """Moments of (bytes, seconds) pairs."""
    return sum(
        (
            Moments(1, size_bytes, seconds, least_bytes=size_bytes, most_bytes=size_bytes)
            for size_bytes, seconds in transfers
        ),
        Moments(),
    )


def fit(seen: Moments, last: Rate) -> Rate:
    """Least squares, as far as the transfers decide it.

    If all have one size (`ONE_SIZE`), the overhead is kept and the bandwidth fitted; if they took
    less than that overhead, both change alike. An overhead below 0, as a bandwidth that changed
    between transfers may suggest, becomes 0; a falling line is treated as one size. Without
    transfers that took time nothing changes. `seen` excludes the time of tensors.
    """
    if not seen.count or seen.mean_bytes <= 0 or seen.mean_s <= 0:
        return last
    if seen.most_bytes - seen.least_bytes > ONE_SIZE * seen.most_bytes and seen.bytes_s > 0:
        slope = seen.bytes_s / seen.bytes_bytes
        overhead_s = seen.mean_s - slope * seen.mean_bytes
        if overhead_s >= 0:
            return Rate(overhead_s, 8 / slope, last.tensor_s)
        return _through(seen, 0.0, last)
    return _through(seen, last.overhead_s, last)


def _through(seen: Moments, overhead_s: float, last: Rate) -> Rate:
    """Least squares for the bandwidth alone."""
    squares = seen.bytes_bytes + seen.count * seen.mean_bytes**2
    products = seen.bytes_s + seen.count * seen.mean_bytes * (seen.mean_s - overhead_s)
    if products <= 0:
        factor = seen.mean_s / last.transfer_s(seen.mean_bytes)
        return Rate(last.overhead_s * factor, last.bandwidth_bps / factor, last.tensor_s)
    return Rate(overhead_s, 8 * squares / products, last.tensor_s)


def estimate(believed_s: FloatArray, computed: Iterable[Computed]) -> FloatArray:
    """Seconds of each layer, shape (L,), from those of segments.

    The mean, over all segments that a layer was computed in, of

        seconds of the segment * believed seconds of the layer / those of the segment

    Layers in no segment stay as believed; a segment believed to take nothing is shared out evenly.
    The sum over a segment that is computed repeatedly becomes its mean, and a layer computed alone
    gets its own seconds. Where cuts vary, overlapping segments separate layers; repeated, this is
    the Richardson-Lucy iteration for non-negative numbers.
    """
    segments: dict[tuple[int, int], tuple[int, float]] = {}  # how often, for how long in all
    for first, last, seconds in computed:
        times, took_s = segments.get((first, last), (0, 0.0))
        segments[first, last] = times + 1, took_s + seconds
    count, total_s = np.zeros(len(believed_s)), np.zeros(len(believed_s))
    for (first, last), (times, took_s) in segments.items():
        layers = slice(first - 1, last)
        part_s = believed_s[layers]
        whole_s = part_s.sum()
        share = part_s / whole_s if whole_s > 0 else 1 / len(part_s)
        total_s[layers] += took_s * share
        count[layers] += times
    return np.where(count > 0, total_s / np.maximum(count, 1), believed_s)


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

    @classmethod
    def before(cls, job: Job, rate: Rate, window: int = 1) -> Profile:
        """Estimate before any observation: the job's computation at speed 1."""
        return cls(rate, rate, job.forward_s, job.backward_s, window=window)

    def costs(self, job: Job) -> LayerCosts:
        """What the planner plans with.

        Every server sends its part of a layer on a link of its own, so a layer takes what one
        part takes.

        Deviation: Δt, which the paper has once, is the mean of both directions.
        """
        share = 1 / job.servers
        tensors = np.array(job.tensors or [0] * job.layers)
        pull, push = self.pull, self.push
        return LayerCosts(
            pull_s=job.pull_bytes * share * 8 / pull.bandwidth_bps + tensors * pull.tensor_s,
            forward_s=self.forward_s,
            backward_s=self.backward_s,
            push_s=job.push_bytes * share * 8 / push.bandwidth_bps + tensors * push.tensor_s,
            overhead_s=(pull.overhead_s + push.overhead_s) / 2,
        )


def step(state: Profile, observed: Observed) -> Profile:
    """Estimate again, with one more iteration."""
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
        pull=fit(sum((seen.pulls for seen in recent), Moments()), state.pull),
        push=fit(sum((seen.pushes for seen in recent), Moments()), state.push),
        forward_s=estimate(state.forward_s, chain.from_iterable(seen.forward for seen in recent)),
        backward_s=estimate(
            state.backward_s, chain.from_iterable(seen.backward for seen in recent)
        ),
    )


def _moments(moved: tuple[Moved, ...], rate: Rate) -> Moments:
    """Moments of transfers, without the time of their tensors."""
    return moments(
        (size_bytes, max(0.0, seconds - tensors * rate.tensor_s))
        for size_bytes, seconds, tensors in moved
    )


@dataclass(frozen=True)
class Replanned:
    """Planned from observations, every few iterations.

    Deviation: both directions are planned in the window of the last push; what exceeds that push
    delays the next iteration. The paper plans backward while it waits for the first pull.
    """

    job: Job
    believed: Profile  # before any observation; its window says how far estimates look back
    every: int = EPOCH  # iterations under one plan
    planner: Planner = dynacomm
    planning_s: float = PLANNING_S  # what planning costs the worker

    def begin(self) -> tuple[Profile, Plan]:
        """The first estimate, and its plan."""
        return self.believed, self.planner(self.believed.costs(self.job))

    def step(
        self, state: Profile, iteration: int, _: float, observed: Observed
    ) -> tuple[Profile, Plan | None]:
        """Profile, and plan if it is time to."""
        state = step(state, observed)
        if iteration % self.every:
            return state, None
        return state, self.planner(state.costs(self.job))

"""Real-time profiling of links and worker, and plans made from it (Cai et al. 2021, IV-A, IV-C).

Deviation: the paper reads every layer's seconds off its framework's profiler, switched on once an
epoch. Here segments are timed as they run; layers that are always computed together keep the
proportions of the estimate before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from workbench.dynacomm.costs import FloatArray, LayerCosts, Plan
from workbench.dynacomm.planners import Planner, dynacomm
from workbench.dynacomm.programs import Job, Observation, SegmentTime
from workbench.utils.checks import NOT_NEGATIVE, at_least, check_fields

if TYPE_CHECKING:
    from workbench.runtime import Transfer

EPOCH = 195
"""Iterations between two plans by default: CIFAR-10 at a total batch of 256 (IV-C)."""

PLANNING_MS = {
    "vgg19": 0.084 + 0.082,
    "googlenet": 0.14 + 0.15,
    "inception_v4": 2.03 + 1.95,
    "resnet152": 11.59 + 11.56,
}
"""Milliseconds that planning forward and backward took the paper's workers (Table I)."""

ONE_SIZE = 0.01
"""Sizes that differ by less, as a share of the largest, cannot separate overhead and bandwidth."""


def planning_s(model: str, layers: int) -> float:
    """Seconds that planning for a model takes a worker of speed 1.

    As the paper measured (Table I); for other models, what its O(L^3) makes of ResNet-152's 152
    layers.
    """
    return 1e-3 * PLANNING_MS.get(model, PLANNING_MS["resnet152"] * (layers / 152) ** 3)


class Line(NamedTuple):
    """Seconds of a transfer in one direction: ``overhead_s + bytes * 8 / bandwidth_bps``.

    `tensor_s`, what each tensor adds, is taken as known: a few transfers cannot separate it from
    bytes, which rise with tensors.
    """

    overhead_s: float
    bandwidth_bps: float
    tensor_s: float = 0.0

    def fitted(self, transfers: Iterable[Transfer]) -> Line:
        """The line by least squares, as far as the transfers decide it.

        If all have one size, or the line falls, the overhead is kept and the bandwidth fitted; if
        they took less than that overhead, both change alike. An overhead below 0, as a bandwidth
        that changed between transfers may suggest, becomes 0.
        """
        # N = transfers: bytes, and seconds without those of their tensors, (N, 2)
        rows = [
            (sent.size_bytes, max(0.0, sent.end_s - sent.start_s - sent.tensors * self.tensor_s))
            for sent in transfers
        ]
        sizes, seconds = np.array(rows, dtype=float).reshape(-1, 2).T
        if not sizes.any() or not seconds.any():
            return self
        overhead_s = self.overhead_s
        if np.ptp(sizes) > ONE_SIZE * sizes.max():
            slope, at_zero_s = np.polyfit(sizes, seconds, 1)
            if slope > 0 and at_zero_s >= 0:
                return Line(float(at_zero_s), float(8 / slope), self.tensor_s)
            if slope > 0:
                overhead_s = 0.0
        slope = sizes @ (seconds - overhead_s) / (sizes @ sizes)
        if slope > 0:
            return Line(overhead_s, float(8 / slope), self.tensor_s)
        factor = float(seconds.mean()) / (overhead_s + float(sizes.mean()) * 8 / self.bandwidth_bps)
        return Line(overhead_s * factor, self.bandwidth_bps / factor, self.tensor_s)

    def layers_s(self, layer_bytes: FloatArray, tensors: Sequence[int]) -> FloatArray:
        """Seconds of each layer, without the overhead, (L,)."""
        seconds: FloatArray = layer_bytes * 8 / self.bandwidth_bps
        return seconds + np.array(tensors) * self.tensor_s if tensors else seconds


def layer_seconds(before_s: FloatArray, segments: Iterable[SegmentTime]) -> FloatArray:
    """Seconds of each layer, shape (L,), from those of segments.

    The mean, over all segments that a layer was computed in, of

        seconds of the segment * seconds of the layer before / those of the segment before

    Layers in no segment stay as before; a segment that took nothing before is shared out evenly.
    Where cuts vary, overlapping segments separate layers; repeated, this is the Richardson-Lucy
    iteration for non-negative numbers.
    """
    times: dict[tuple[int, int], list[float]] = defaultdict(list)
    for first, last, seconds in segments:
        times[first, last].append(seconds)
    count, total_s = np.zeros(len(before_s)), np.zeros(len(before_s))
    for (first, last), all_s in times.items():
        layers = slice(first - 1, last)
        part_s = before_s[layers]
        whole_s = part_s.sum()
        total_s[layers] += sum(all_s) * (part_s / whole_s if whole_s > 0 else 1 / len(part_s))
        count[layers] += len(all_s)
    return np.where(count > 0, total_s / np.maximum(count, 1), before_s)


@dataclass(frozen=True, eq=False)
class Profile:
    """Estimates of one worker: its links, and the seconds of its layers, (L,)."""

    pull: Line
    push: Line
    forward_s: FloatArray
    backward_s: FloatArray

    @classmethod
    def before(cls, job: Job, line: Line) -> Profile:
        """Estimate before any observation: the job's computation at speed 1."""
        return cls(line, line, job.forward_s, job.backward_s)

    def after(self, observations: Sequence[Observation]) -> Profile:
        """Estimate again, from at least one iteration."""
        pulls, pushes, forward, backward = (
            list(chain.from_iterable(measured)) for measured in zip(*observations, strict=True)
        )
        return Profile(
            self.pull.fitted(pulls),
            self.push.fitted(pushes),
            layer_seconds(self.forward_s, forward),
            layer_seconds(self.backward_s, backward),
        )

    def costs(self, job: Job) -> LayerCosts:
        """What the planner plans with: a layer takes what one server's part of it takes.

        Deviation: Δt, which the paper has once, is the mean of both directions.
        """
        return LayerCosts(
            pull_s=self.pull.layers_s(job.pull_bytes / job.servers, job.tensors),
            forward_s=self.forward_s,
            backward_s=self.backward_s,
            push_s=self.push.layers_s(job.push_bytes / job.servers, job.tensors),
            overhead_s=(self.pull.overhead_s + self.push.overhead_s) / 2,
        )


State = tuple[Profile, tuple[Observation, ...]]
"""The last estimate, and what was observed since."""


@dataclass(frozen=True)
class Replanning:
    """Plans again from observations, every `period` iterations.

    Deviation: both directions are planned in the window of the last push; what exceeds that push
    delays the next iteration. The paper plans backward while it waits for the first pull.
    """

    job: Job
    profile: Profile  # before any observation
    period: int = field(default=EPOCH, metadata=at_least(1))
    planner: Planner = dynacomm
    planning_s: float = field(default=0.0, metadata=NOT_NEGATIVE)  # of the worker

    def __post_init__(self) -> None:
        check_fields(self)

    def begin(self) -> tuple[State, Plan]:
        """The first estimate without observations, and its plan."""
        return (self.profile, ()), self.planner(self.profile.costs(self.job))

    def step(
        self, state: State, iteration: int, now_s: float, observation: Observation
    ) -> tuple[State, Plan | None]:
        """Keep the observation; at the end of a period, estimate and plan from all of them."""
        profile, kept = state
        kept = (*kept, observation)
        if iteration % self.period:
            return (profile, kept), None
        profile = profile.after(kept)
        return (profile, ()), self.planner(profile.costs(self.job))

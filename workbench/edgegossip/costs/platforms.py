"""A platform: its speed, what co-runs with it and slows it, and what it predicts of itself."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.clusters import Cluster, Link, Node, Schedule, full_mesh
from workbench.edgegossip.prediction.predictor import RESOURCES, Contention, Predictor
from workbench.training.repeatable import LOAD
from workbench.utils.checks import UserError, check_number, listed

WORKLOADS = ("wordcount", "sort")


@dataclass(frozen=True)
class Load:
    """Contention over time, constant from one start to the next.

    Parameters
    ----------
    starts_s
        When each contention begins: 0 first, ascending.
    contentions
        One for each start; the last one holds for ever.
    """

    starts_s: tuple[float, ...] = (0.0,)
    contentions: tuple[Contention, ...] = (Contention(),)

    def __post_init__(self) -> None:
        starts_s = listed("starts_s", self.starts_s, "give seconds, such as (0.0, 100.0)")
        instead = "give a Contention for each start"
        contentions = listed("contentions", self.contentions, instead)
        for contention in contentions:
            if not isinstance(contention, Contention):
                raise UserError(f"a contention is {contention!r}; {instead}")
        object.__setattr__(self, "starts_s", starts_s)
        object.__setattr__(self, "contentions", contentions)
        if len(starts_s) != len(contentions):
            raise UserError(
                f"{len(starts_s)} starts for {len(contentions)} contentions; "
                "give each contention its start"
            )
        Schedule(starts_s, (1.0,) * len(starts_s))  # refuses unordered starts

    def mean(self, from_s: float, to_s: float) -> Contention:
        """Contention averaged from `from_s` to `to_s`; that at `to_s` if they are equal."""
        last = bisect_right(self.starts_s, to_s) - 1
        first = bisect_right(self.starts_s, max(from_s, 0.0)) - 1
        if first >= last:
            return self.contentions[last]
        edges_s = [max(from_s, 0.0), *self.starts_s[first + 1 : last + 1], to_s]
        weights = np.diff(edges_s)[:, None]
        # What np.average gives, whose checks take several times as long.
        means = (self.uses[first : last + 1] * weights).sum(axis=0) / weights.sum(axis=0)
        return Contention(*map(float, means))

    @cached_property
    def uses(self) -> NDArray[np.float64]:
        """Core, network and disk of each contention, (K, 3)."""
        return np.array([astuple(each) for each in self.contentions])

    def speed(self, predictor: Predictor, factor: float = 1.0) -> Schedule:
        """Speed of a platform under this load by a predictor, times `factor`."""
        return Schedule(self.starts_s, tuple((factor / predictor.slowdowns(self.uses)).tolist()))


def draw_load(
    seed: int, platform: int, facts: Mapping[str, Any], until_s: float, intensity: float = 1.0
) -> Load:
    """Draw the jobs of a platform: WordCount or Sort, sizes log-uniform, pauses exponential.

    Han et al. (2021, Sec. 4.2) let them run beside the training, on inputs of 1 MB to 10 GB; when,
    for how long and with what effect is not stated.

    `facts` are the testbed's ``co_runners``: sizes, pauses, and what each job uses by its size. No
    job begins after `until_s`. `intensity` is a factor on all that jobs use, of cores no more than
    all. Each platform has draws of its own, so a deployment that grows keeps those it had.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(LOAD, platform)))
    low, high = math.log10(facts["least_bytes"]), math.log10(facts["most_bytes"])
    starts_s, contentions, at_s = [0.0], [Contention()], 0.0
    while intensity:
        at_s += float(rng.exponential(facts["pause_s"])) + 1e-6
        job, size = WORKLOADS[int(rng.integers(len(WORKLOADS)))], float(rng.uniform(low, high))
        jitter = rng.uniform(1 - facts["jitter"], 1 + facts["jitter"], 3)
        if at_s >= until_s:
            break
        uses = [
            intensity * float(factor) * _between(facts[job][name], (size - low) / (high - low))
            for name, factor in zip(RESOURCES, jitter, strict=True)
        ]
        end_s = at_s + facts["start_up_s"] + 10**size / facts["bytes_per_s"]
        starts_s += [at_s, end_s]
        contentions += [Contention(min(uses[0], 1.0), uses[1], uses[2]), Contention()]
        at_s = end_s
    return Load(tuple(starts_s), tuple(contentions))


def _between(ends: Sequence[float], share: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * share


@dataclass(frozen=True)
class Platform:
    """One EC platform: one executor or several, which share its samples.

    The executors are nodes of one kind with the same algorithm (Sec. 3.3); what co-runs with each
    is its own.

    Attributes
    ----------
    name
        Name, unique in a deployment.
    predictor
        Predictor of its kind of machine: the regression of slowdown, which also slows it in the
        simulation, and t_0, the seconds to learn from a sample without contention.
    load
        Contention by others on its executor; for several executors a tuple, one `Load` for each.
    slower
        Factor by which it is slower than its kind, in learning, ranking and aggregating.
    """

    name: str
    predictor: Predictor
    load: Load | tuple[Load, ...] = field(default_factory=Load)
    slower: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.predictor, Predictor):
            raise UserError(f"predictor of {self.name} is {self.predictor!r}; give a Predictor")
        if not self.executors or not all(isinstance(load, Load) for load in self.executors):
            raise UserError(
                f"load of {self.name} is {self.load!r}; give a Load, or a tuple of one for each "
                "executor"
            )
        if not 0 < check_number("slower", self.slower) < math.inf:
            raise UserError(f"slower of {self.name} is {self.slower}; give a number above 0")

    @property
    def executors(self) -> tuple[Load, ...]:
        """The load of each executor."""
        return self.load if isinstance(self.load, tuple) else (self.load,)

    @property
    def sample_s(self) -> float:
        """Seconds that learning from a sample takes at speed 1: its kind's t_0."""
        return self.predictor.baseline_s

    @property
    def baseline_s(self) -> float:
        """t_0 of each of its executors."""
        return self.slower * self.predictor.baseline_s

    @cached_property
    def speed(self) -> Schedule:
        """Speed over time: 1 of a single executor of its kind without load."""
        speeds = [load.speed(self.predictor, 1 / self.slower) for load in self.executors]
        if len(speeds) == 1:
            return speeds[0]
        starts_s = sorted({start_s for speed in speeds for start_s in speed.starts_s})
        return Schedule.of((at_s, sum(speed.at(at_s) for speed in speeds)) for at_s in starts_s)

    @property
    def alone(self) -> float:
        """Samples per second without contention."""
        return platform_throughput([self.baseline_s] * len(self.executors))

    def throughput(self, baseline_s: float, now_s: float, window_s: float) -> float:
        """p: samples per second predicted from t_0 and the contention of the last `window_s`."""
        contentions = [load.mean(now_s - window_s, now_s) for load in self.executors]
        return platform_throughput([self.predictor.seconds(baseline_s, u) for u in contentions])

    def observe(self, baseline_s: float, samples: int, seconds: float, now_s: float) -> float:
        """Estimate of t_0 after learning from `samples` for `seconds`, until `now_s`.

        Each executor has learnt from its share of the samples, by which all have the same t_0.
        """
        if not samples or not seconds > 0:
            return baseline_s
        contentions = [load.mean(now_s - seconds, now_s) for load in self.executors]
        rates = [1 / self.predictor.slowdown(contention) for contention in contentions]
        own_samples = samples * (rates[0] / sum(rates))
        return self.predictor.observe(baseline_s, contentions[0], seconds / own_samples)


def platform_throughput(seconds: Sequence[float]) -> float:
    """Samples per second of executors that take `seconds` for a sample each: p = sum of 1 / t_i.

    The paper's extended estimator (Sec. 3.3).
    """
    return sum(1 / each_s for each_s in seconds)


def exchange_s(peers: int, model_bytes: float, uplink_bps: float, overhead_s: float = 0.0) -> float:
    """Seconds from a platform's end of an epoch until all its peers have its model.

    It sends to all at once, over its one uplink.
    """
    return overhead_s + peers * model_bytes * 8 / uplink_bps if peers else 0.0


def cluster(platforms: Sequence[Platform], uplink_bps: float, overhead_s: float = 0.0) -> Cluster:
    """All platforms linked with each other; the links of each share its uplink."""
    nodes = [Node(each.name, speed=each.speed, uplink_bps=uplink_bps) for each in platforms]
    return full_mesh(nodes, Link(uplink_bps, overhead_s=overhead_s))

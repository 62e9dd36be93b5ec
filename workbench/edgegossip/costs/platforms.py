"""A platform: its speed, what slows it, and what it predicts of itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from workbench.checks import check_number, whole
from workbench.clusters import Cluster, Link, Node, Schedule, full_mesh
from workbench.edgegossip.costs.load import Load
from workbench.edgegossip.prediction.predictor import Baseline, Predictor, throughput
from workbench.errors import UserError


@dataclass(frozen=True)
class Platform:
    """One EC platform of a single executor.

    Attributes
    ----------
    name
        Unique in a deployment.
    predictor
        Its regression of slowdown, which also slows it in the simulation, and t_0: seconds that
        learning from a sample takes without contention.
    load
        What co-runs with it.
    slower
        How many times slower than its kind it is, in learning (its t_0 includes that), ranking and
        aggregating.

    Raises
    ------
    ValueError
        A factor that is not positive and finite; no predictor or load.
    """

    name: str
    predictor: Predictor
    load: Load = field(default_factory=Load)
    slower: float = 1.0

    def __post_init__(self) -> None:
        for what, value, kind in (
            ("predictor", self.predictor, Predictor),
            ("load", self.load, Load),
        ):
            if not isinstance(value, kind):
                raise UserError(f"{what} of {self.name} is {value!r}; give a {kind.__name__}")
        if not 0 < check_number("slower", self.slower) < math.inf:
            raise UserError(f"slower of {self.name} is {self.slower}; give a number above 0")

    @property
    def sample_s(self) -> float:
        """Seconds that learning from a sample takes at speed 1: its kind's t_0."""
        return self.predictor.baseline_s / self.slower

    @cached_property
    def speed(self) -> Schedule:
        """Speed over time, 1 of its kind without load."""
        return self.load.speed(self.predictor, 1 / self.slower)

    def throughput(self, baseline: Baseline, now_s: float, window_s: float) -> float:
        """p: samples per second predicted from the contention of the last `window_s`."""
        contention = self.load.mean(now_s - window_s, now_s)
        return throughput([self.predictor.seconds(baseline, contention)])

    def observe(self, baseline: Baseline, samples: int, seconds: float, now_s: float) -> Baseline:
        """Estimate of t_0 after learning from `samples` for `seconds`, until `now_s`."""
        if not samples or not seconds > 0:
            return baseline
        contention = self.load.mean(now_s - seconds, now_s)
        return self.predictor.observe(baseline, contention, seconds / samples)


def exchange_s(peers: int, model_bytes: float, uplink_bps: float, overhead_s: float = 0.0) -> float:
    """Seconds from a platform's end of an epoch until all its peers have its model.

    It sends to all at once, over its one uplink.
    """
    return overhead_s + peers * model_bytes * 8 / uplink_bps if peers else 0.0


def ring_peers(platforms: int, peers: int | None = None) -> list[list[int]]:
    """With whom each exchanges models: with the `peers` nearest on a ring; None for all others."""
    reach = platforms
    if peers is not None:
        count = whole(peers)
        if count is None or count < 2 or count % 2:
            raise UserError(f"peers is {peers!r}; give an even number, half on either side")
        reach = count // 2
    numbers = range(platforms)
    return [
        [j for j in numbers if j != i and min(abs(i - j), platforms - abs(i - j)) <= reach]
        for i in numbers
    ]


def cluster(platforms: Sequence[Platform], uplink_bps: float, overhead_s: float = 0.0) -> Cluster:
    """All platforms linked with each other; the links of each share its uplink."""
    nodes = [Node(one.name, speed=one.speed, uplink_bps=uplink_bps) for one in platforms]
    return full_mesh(nodes, Link(uplink_bps, overhead_s=overhead_s))

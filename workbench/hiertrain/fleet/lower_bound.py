"""A lower bound on the seconds of any assignment."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from workbench.hiertrain.costs.problem import FloatArray
from workbench.hiertrain.fleet.fleet import Fleet, check_fleet

SLACK = 1e-9  # shares are rounded sums; a little more of them is granted


class Bound(NamedTuple):
    """Seconds below which no assignment with any policies can be."""

    slowest_s: float
    mean_s: float


def lower_bound(fleet: Fleet) -> Bound:
    """Bound the slowest device's seconds, and the mean of all.

    For the mean: the mean over the devices, each with its best edge to itself.

    For the slowest, the capacity of the edges counts too. Suppose that all devices meet a time T. A
    device that computes at an edge with others, c in all, then has a plan that takes T or less with
    1/c of the compute, so its share 1/c is at least 1/k, where k is the most devices with which it
    could share any edge and still meet T, even with an uplink to itself. The shares at an edge add
    up to 1. Hence the sum of 1/k over the devices that must compute at an edge to meet T is at most
    the number of edges, E; likewise for the uplink; and the sum over all devices of the least of
    both that a device needs is at most 2 E. The bound is the least T at which all that holds, and
    at which every device by itself meets T.
    """
    check_fleet(fleet)
    devices = [_times(fleet, name) for name in fleet.problems]
    times_s = np.unique(np.concatenate([np.concatenate(times) for times in devices]))
    edges = len({edge for reached in fleet.problems.values() for edge in reached})

    def met(time_s: float) -> bool:
        return _met(devices, time_s, edges)

    slowest_s = float(times_s[bisect_left(times_s[:-1].tolist(), True, key=met)])
    alone_s = [
        min(fleet.plans.alone(name, edge).total_s for edge in reached)
        for name, reached in fleet.problems.items()
    ]
    return Bound(slowest_s, math.fsum(alone_s) / len(alone_s))


class Times(NamedTuple):
    """Least seconds of a device at its best edge, by how many share: from one on, (D,)."""

    by_itself: FloatArray  # without edge and cloud, (1,)
    edge: FloatArray  # without the cloud, by the number computing
    cloud: FloatArray  # without the edge, by the number sending
    computing: FloatArray  # with both, by the number computing and one sending
    sending: FloatArray  # with both, by the number sending and one computing


def _times(fleet: Fleet, name: str) -> Times:
    counts = range(1, len(fleet.problems) + 1)

    def least_s(shares: Iterable[tuple[int, int]]) -> FloatArray:
        return np.array(
            [
                min(fleet.plans.best(name, edge, *share).total_s for edge in fleet.problems[name])
                for share in shares
            ]
        )

    return Times(
        least_s([(0, 0)]),
        least_s((count, 0) for count in counts),
        least_s((0, count) for count in counts),
        least_s((count, 1) for count in counts),
        least_s((1, count) for count in counts),
    )


def _met(devices: list[Times], time_s: float, edges: int) -> bool:
    """Whether the edges have the shares that the devices need to meet a time."""
    computing, sending, both = 0.0, 0.0, 0.0
    for times in devices:
        least = _least_shares(times, time_s)
        computing += min((compute for compute, _ in least), default=math.inf)
        sending += min((uplink for _, uplink in least), default=math.inf)
        both += min((sum(shares) for shares in least), default=math.inf)
    granted = edges * (1 + SLACK)
    return computing <= granted and sending <= granted and both <= 2 * granted


def _least_shares(times: Times, time_s: float) -> list[tuple[float, float]]:
    """Least shares of compute and uplink of each kind of plan that meets a time."""

    def share(times_s: FloatArray) -> float:
        meeting = np.flatnonzero(times_s <= time_s)
        return 1 / (int(meeting[-1]) + 1) if len(meeting) else math.inf

    kinds = [
        (0.0 if times.by_itself[0] <= time_s else math.inf, 0.0),
        (share(times.edge), 0.0),
        (0.0, share(times.cloud)),
        (share(times.computing), share(times.sending)),
    ]
    return [shares for shares in kinds if max(shares) < math.inf]

"""The best plans of all devices of one edge together, exact under equal shares.

A plan's time depends on the shares, and the shares on who uses what. So every pair of numbers (c,
u) of devices that may compute at the edge and may use its uplink is tried, and for each pair every
device has four plans, with or without the edge and with or without the cloud. A dynamic programme
over the devices picks one for each so that at most c and u are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from workbench.hiertrain.costs.policy import Hybrid
from workbench.hiertrain.costs.problem import FloatArray
from workbench.hiertrain.fleet.plans import Plans

USES = ((1, 1), (1, 0), (0, 1), (0, 0))  # of the edge's compute and of its uplink
Combine = Callable[[FloatArray, FloatArray], FloatArray]


def joint(plans: Plans, edge: str, devices: Sequence[str]) -> tuple[list[Hybrid], list[float]]:
    """Policies and seconds of the devices of an edge, in their order.

    The slowest is as fast as possible, then the mean.
    """
    if len(devices) == 1:
        plan = plans.alone(devices[0], edge)
        return [plan.policy], [plan.total_s]
    # axes: i device, c computing at most, u sending at most, p place in USES
    count = len(devices) + 1
    times_s = np.full((len(devices), count, count, len(USES)), np.inf)
    for i, device in enumerate(devices):
        best_s = np.empty((count, count))
        for c, u in np.ndindex(best_s.shape):
            best_s[c, u] = plans.best(device, edge, c, u).total_s
        for p, (computes, sends) in enumerate(USES):
            # Whoever does not use something takes no share of it: row or column 0.
            of_c, of_u = (slice(1, None) if uses else slice(1) for uses in (computes, sends))
            times_s[i, computes:, sends:, p] = best_s[of_c, of_u]
    slowest_s, _ = _picked(times_s, np.maximum)
    times_s[times_s > slowest_s.min()] = np.inf
    sum_s, picks = _picked(times_s, np.add)
    c, u = map(int, np.unravel_index(sum_s.argmin(), sum_s.shape))
    policies = [
        plans.best(device, edge, c * USES[p][0], u * USES[p][1]).policy
        for device, p in zip(devices, picks(c, u), strict=True)
    ]
    return policies, seconds(plans, edge, devices, policies)


def _picked(
    times_s: FloatArray, combine: Combine
) -> tuple[FloatArray, Callable[[int, int], list[int]]]:
    """For each (c, u) the least combination of one plan a device, and a function of its picks."""
    count = times_s.shape[1]
    # axes: c, u, a computing so far, b sending so far
    best_s = np.full((count,) * 4, np.inf)
    best_s[:, :, 0, 0] = 0.0
    steps: list[NDArray[np.intp]] = []
    for of_device_s in times_s:
        tried_s = np.full((len(USES), *best_s.shape), np.inf)
        for p, (computes, sends) in enumerate(USES):
            before_s = best_s[:, :, : count - computes, : count - sends]
            tried_s[p, :, :, computes:, sends:] = combine(
                before_s, of_device_s[:, :, p, None, None]
            )
        steps.append(tried_s.argmin(axis=0))
        best_s = tried_s.min(axis=0)
    c, u, a, b = np.ogrid[:count, :count, :count, :count]
    best_s[(a > c) | (b > u)] = np.inf

    def picks(c: int, u: int) -> list[int]:
        a, b = divmod(int(best_s[c, u].argmin()), count)
        picked = []
        for step in reversed(steps):
            p = int(step[c, u, a, b])
            picked.append(p)
            a, b = a - USES[p][0], b - USES[p][1]
        return picked[::-1]

    return best_s.min(axis=(2, 3)), picks


def seconds(
    plans: Plans, edge: str, devices: Sequence[str], policies: Sequence[Hybrid]
) -> list[float]:
    """Seconds of an iteration of each device of an edge, under the shares that result."""
    computing = sum("edge" in policy.taking_part for policy in policies)
    sending = sum("cloud" in policy.taking_part for policy in policies)
    return [
        plans.total_s(device, edge, policy, computing, sending)
        for device, policy in zip(devices, policies, strict=True)
    ]

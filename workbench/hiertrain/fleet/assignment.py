"""Which device trains with which edge under which policy, and how long that takes each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from workbench.hiertrain.costs.policy import Hybrid
from workbench.hiertrain.fleet.fleet import Fleet, check_fleet
from workbench.hiertrain.fleet.joint import joint, seconds


@dataclass(frozen=True)
class Assignment:
    """Every device's edge, policy and seconds of an iteration; by name, in the order of names.

    A device whose policy uses neither edge nor cloud has an edge all the same, but takes no share
    of it.
    """

    edges: Mapping[str, str]
    policies: Mapping[str, Hybrid]
    seconds: Mapping[str, float]

    @property
    def slowest_s(self) -> float:
        """Seconds of the slowest device: of an iteration in which all wait for all."""
        return max(self.seconds.values())

    @property
    def mean_s(self) -> float:
        """Mean of the devices' seconds."""
        return math.fsum(self.seconds.values()) / len(self.seconds)

    @property
    def objective(self) -> tuple[float, float]:
        """What is minimised, and what decides between assignments equal in that."""
        return self.slowest_s, self.mean_s

    def table(self) -> pl.DataFrame:
        """A row per device: ``device, edge, policy, seconds``."""
        return pl.DataFrame(
            {
                "device": list(self.edges),
                "edge": list(self.edges.values()),
                "policy": list(map(str, self.policies.values())),
                "seconds": list(self.seconds.values()),
            }
        )


def alone(fleet: Fleet) -> Assignment:
    """Plan every device as in the paper, as if it were the only one; timed with all at once.

    Each takes its best edge; of edges equally good for it, the first by name.
    """
    check_fleet(fleet)
    edges = {
        name: min(reached, key=lambda edge: fleet.plans.alone(name, edge).total_s)
        for name, reached in fleet.problems.items()
    }
    return timed(
        fleet, edges, {name: fleet.plans.alone(name, edge).policy for name, edge in edges.items()}
    )


def timed(fleet: Fleet, edges: Mapping[str, str], policies: Mapping[str, Hybrid]) -> Assignment:
    """Time the devices under any policies, each with its share of what it uses."""
    of_device_s: dict[str, float] = {}
    for edge, names in _groups(fleet, edges).items():
        their_s = seconds(fleet.plans, edge, names, [policies[name] for name in names])
        of_device_s |= zip(names, their_s, strict=True)
    return _assignment(fleet, edges, policies, of_device_s)


def planned(fleet: Fleet, edges: Mapping[str, str]) -> Assignment:
    """Plan all devices of each edge together; `edges` may lack some devices.

    Edges with the same devices are planned once.
    """
    policies: dict[str, Hybrid] = {}
    of_device_s: dict[str, float] = {}
    for key in _groups(fleet, edges).items():
        if key not in fleet.plans.joint:
            fleet.plans.joint[key] = joint(fleet.plans, *key)
        theirs, their_s = fleet.plans.joint[key]
        policies |= zip(key[1], theirs, strict=True)
        of_device_s |= zip(key[1], their_s, strict=True)
    return _assignment(fleet, edges, policies, of_device_s)


def _groups(fleet: Fleet, edges: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Devices of each edge that has any, in the order of names."""
    return {
        edge: tuple(name for name in fleet.problems if edges.get(name) == edge)
        for edge in sorted(set(edges.values()))
    }


def _assignment(
    fleet: Fleet,
    edges: Mapping[str, str],
    policies: Mapping[str, Hybrid],
    of_device_s: Mapping[str, float],
) -> Assignment:
    """Bring edges, policies and seconds into the order of names."""
    names = [name for name in fleet.problems if name in edges]
    return Assignment(
        {name: edges[name] for name in names},
        {name: policies[name] for name in names},
        {name: of_device_s[name] for name in names},
    )

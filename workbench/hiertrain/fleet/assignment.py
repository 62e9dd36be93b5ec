"""Which device trains with which edge under which policy, and how long that takes each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from workbench.hiertrain.costs.policy import Hybrid
from workbench.hiertrain.fleet.fleet import Fleet, check_fleet
from workbench.hiertrain.fleet.joint import joint, seconds
from workbench.utils.checks import UserError, check_name


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

    def table(self) -> pl.DataFrame:
        """A row per device: ``device, edge, policy, seconds``."""
        names = list(self.edges)
        columns = {
            "device": names,
            "edge": [self.edges[name] for name in names],
            "policy": [str(self.policies[name]) for name in names],
            "seconds": [self.seconds[name] for name in names],
        }
        return pl.DataFrame(columns)


OBJECTIVES: dict[str, Callable[[Assignment], tuple[float, float]]] = {
    "slowest": lambda assigned: (assigned.slowest_s, assigned.mean_s),
    "mean": lambda assigned: (assigned.mean_s, assigned.slowest_s),
}
"""What is minimised, and what decides between assignments equal in that."""


def timed(fleet: Fleet, edges: Mapping[str, str], policies: Mapping[str, Hybrid]) -> Assignment:
    """Time the devices under the policies, each with its share of what it uses.

    `edges` and `policies` are by the name of the device.
    """
    _check_devices(fleet, "edges", edges)
    for name, edge in edges.items():
        if check_name("edge", edge, fleet.edges) not in fleet.reached(name):
            raise UserError(
                f"device {name!r} has no link to edge {edge!r}; "
                f"it reaches {', '.join(fleet.reached(name))}"
            )
    _check_devices(fleet, "policies", policies)
    of_device_s: dict[str, float] = {}
    for edge, names in _groups(fleet, edges).items():
        their_s = seconds(fleet.plans, edge, names, [policies[name] for name in names])
        of_device_s |= zip(names, their_s, strict=True)
    return _assignment(fleet, edges, policies, of_device_s)


def alone(fleet: Fleet) -> Assignment:
    """Plan every device as in the paper, as if it were the only one; timed with all at once.

    Each takes its best edge; of edges equally good for it, the first by name.
    """
    check_fleet(fleet)
    edges = {
        name: min(fleet.reached(name), key=lambda edge: fleet.plans.alone(name, edge).total_s)
        for name in fleet.by_name
    }
    policies = {name: fleet.plans.alone(name, edge).policy for name, edge in edges.items()}
    return timed(fleet, edges, policies)


def planned(fleet: Fleet, edges: Mapping[str, str], objective: str) -> Assignment:
    """Plan all devices of each edge together; `edges` may lack some devices.

    Edges with the same devices are planned once.
    """
    policies: dict[str, Hybrid] = {}
    of_device_s: dict[str, float] = {}
    for edge, names in _groups(fleet, edges).items():
        key = edge, names, objective
        if key not in fleet.plans.joint:
            fleet.plans.joint[key] = joint(fleet.plans, edge, names, objective)
        theirs, their_s = fleet.plans.joint[key]
        policies |= zip(names, theirs, strict=True)
        of_device_s |= zip(names, their_s, strict=True)
    return _assignment(fleet, edges, policies, of_device_s)


def _groups(fleet: Fleet, edges: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Devices of each edge that has any, in the order of names."""
    return {
        edge: tuple(name for name in fleet.by_name if edges.get(name) == edge)
        for edge in sorted(set(edges.values()))
    }


def _assignment(fleet: Fleet, *by_device: Mapping[str, Any]) -> Assignment:
    """Bring edges, policies and seconds into the order of names."""
    return Assignment(
        *({name: values[name] for name in fleet.by_name if name in values} for values in by_device)
    )


def _check_devices(fleet: Fleet, what: str, by_device: Mapping[str, object]) -> None:
    for name in by_device:
        check_name(f"device in {what}", name, fleet.by_name)
    missing = [name for name in fleet.by_name if name not in by_device]
    if missing:
        raise UserError(f"{what} has nothing for {', '.join(missing)}; give one to every device")

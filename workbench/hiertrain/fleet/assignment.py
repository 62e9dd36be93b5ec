"""Which device trains with which edge under which policy, and how long that takes each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from workbench.errors import UserError
from workbench.hiertrain.costs.policy import Hybrid
from workbench.hiertrain.fleet.fleet import Fleet
from workbench.hiertrain.fleet.joint import joint, seconds
from workbench.names import check_name

T = TypeVar("T")


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
        return pl.DataFrame(
            [
                (name, edge, str(self.policies[name]), self.seconds[name])
                for name, edge in self.edges.items()
            ],
            schema={
                "device": pl.String,
                "edge": pl.String,
                "policy": pl.String,
                "seconds": pl.Float64,
            },
            orient="row",
        )


OBJECTIVES: dict[str, Callable[[Assignment], tuple[float, float]]] = {
    "slowest": lambda found: (found.slowest_s, found.mean_s),
    "mean": lambda found: (found.mean_s, found.slowest_s),
}
"""What is minimised, and what decides between assignments equal in that."""


def timed(fleet: Fleet, edges: Mapping[str, str], policies: Mapping[str, Hybrid]) -> Assignment:
    """Time the devices under the policies, each with its share of what it uses.

    Parameters
    ----------
    edges, policies
        By the name of the device.

    Raises
    ------
    ValueError
        A device without edge or policy, or an unknown one; an edge that is unknown or that the
        device has no link to; a policy that does not fit the device's problem.
    """
    _check(fleet, "edges", edges)
    _check(fleet, "policies", policies)
    found: dict[str, float] = {}
    for edge, names in groups(fleet, edges).items():
        their_s = seconds(fleet.plans, edge, names, [policies[name] for name in names])
        found |= zip(names, their_s, strict=True)
    return Assignment(_sorted(fleet, edges), _sorted(fleet, policies), _sorted(fleet, found))


def planned(fleet: Fleet, edges: Mapping[str, str], objective: str = "slowest") -> Assignment:
    """Plan all devices of each edge together, for an `objective` in `OBJECTIVES`."""
    check_name("objective", objective, OBJECTIVES)
    _check(fleet, "edges", edges)
    policies: dict[str, Hybrid] = {}
    found: dict[str, float] = {}
    for edge, names in groups(fleet, edges).items():
        theirs, their_s = joint(fleet.plans, edge, names, objective)
        policies |= zip(names, theirs, strict=True)
        found |= zip(names, their_s, strict=True)
    return Assignment(_sorted(fleet, edges), _sorted(fleet, policies), _sorted(fleet, found))


def groups(fleet: Fleet, edges: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Devices of each edge that has any, in the order of names; `edges` may lack some devices."""
    return {
        edge: tuple(name for name in fleet.by_name if edges.get(name) == edge)
        for edge in sorted(set(edges.values()))
    }


def _sorted(fleet: Fleet, by_name: Mapping[str, T]) -> dict[str, T]:
    return {name: by_name[name] for name in fleet.by_name}


def _check(fleet: Fleet, what: str, by_device: Mapping[str, object]) -> None:
    for name in by_device:
        check_name(f"device in {what}", name, fleet.by_name)
    missing = [name for name in fleet.by_name if name not in by_device]
    if missing:
        raise UserError(f"{what} has nothing for {', '.join(missing)}; give one to every device")
    for name, value in by_device.items():
        if what == "edges":
            check_name("edge", str(value), fleet.edges)
            if value not in fleet.reached(name):
                raise UserError(
                    f"device {name!r} has no link to edge {value!r}; "
                    f"it reaches {', '.join(fleet.reached(name))}"
                )

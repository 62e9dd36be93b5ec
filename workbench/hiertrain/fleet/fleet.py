"""Devices, the edges that each can reach, and the problem of each if alone there.

`fleet_of` makes a fleet from profiles: machines by their FLOP/s and links.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from workbench.hiertrain.costs.problem import Problem
from workbench.hiertrain.costs.profiled import ROUTES, problem_of, through_edge
from workbench.hiertrain.fleet.plans import Plans
from workbench.utils.checks import UserError, check_kind, check_name

if TYPE_CHECKING:
    from workbench.profiles import ModelProfile


@dataclass(frozen=True, eq=False)
class Device:
    """A device with its own model, speed and batch.

    Parameters
    ----------
    problems
        For each edge that it has a link to, the problem if it had that edge, its uplink and the
        cloud to itself. All of one model and batch.
    """

    name: str
    problems: Mapping[str, Problem]

    def __post_init__(self) -> None:
        object.__setattr__(self, "problems", dict(self.problems))
        if not self.problems:
            raise UserError(
                f"device {self.name!r} has no link to any edge; give it a problem for each edge "
                "that it reaches, or leave it out"
            )
        first, *others = self.problems
        for edge in others:
            if differing := _differing(self.problems[first], self.problems[edge]):
                raise UserError(
                    f"device {self.name!r} has another {differing} with edge {edge!r} than with "
                    f"{first!r}; a device trains one model with one batch at one speed"
                )


@dataclass(frozen=True, eq=False)
class Fleet:
    """Devices that train at the same time, edges that they share, and a cloud that they do not.

    The devices assigned to an edge share its compute equally, and equally its uplink; each share
    belongs, for the whole iteration, to those whose plan has any layers there. So with c devices
    that compute at the edge every layer and update takes c times as long there, and with u devices
    that use the cloud each has 1/u of the uplink's bandwidth, which passes into the bandwidth
    between device and cloud as `route` says. A server that shares among those who compute at the
    moment would give them more.

    The cloud has room for all.

    Parameters
    ----------
    devices
        With different names.
    edges
        Names of the edges, all different; one without devices that reach it stays idle.
    route
        How device and cloud reach each other, as for `through_edge`.
    """

    devices: tuple[Device, ...]
    edges: tuple[str, ...]
    route: str = "bottleneck"

    def __post_init__(self) -> None:
        edges: object = self.edges
        if isinstance(edges, str):
            raise UserError(f"edges is {self.edges!r}; give a sequence of names")
        object.__setattr__(self, "devices", tuple(self.devices))
        object.__setattr__(self, "edges", tuple(self.edges))
        check_name("route", self.route, ROUTES)
        names_of = {"device": [device.name for device in self.devices], "edge": self.edges}
        for what, names in names_of.items():
            if not names:
                raise UserError(f"a fleet has at least one {what}; none was given")
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise UserError(f"several {what}s are called {', '.join(twice)}; rename them")
        uplinks_bps: dict[str, tuple[str, float]] = {}
        for device in self.devices:
            for edge, problem in device.problems.items():
                check_name(f"edge of device {device.name!r}", edge, self.edges)
                uplink_bps = problem.bandwidth_bps["edge", "cloud"]
                first = uplinks_bps.setdefault(edge, (device.name, uplink_bps))
                self._check_links(device.name, edge, problem.bandwidth_bps, *first)

    def _check_links(
        self,
        device: str,
        edge: str,
        links: Mapping[tuple[str, str], float],
        other: str,
        other_bps: float,
    ) -> None:
        uplink_bps = links["edge", "cloud"]
        if not math.isclose(uplink_bps, other_bps, rel_tol=1e-9):
            raise UserError(
                f"the uplink of edge {edge!r} has {other_bps:g} bit/s for device {other!r} and "
                f"{uplink_bps:g} for {device!r}; it is one link, so give its whole bandwidth"
            )
        way_bps = through_edge(links["device", "edge"], uplink_bps, self.route)
        if not math.isclose(way_bps, links["device", "cloud"], rel_tol=1e-9):
            raise UserError(
                f"between device {device!r} and the cloud there are "
                f"{links['device', 'cloud']:g} bit/s, but by way of edge {edge!r} it is "
                f"{way_bps:g} (route {self.route!r}): use through_edge"
            )

    @cached_property
    def by_name(self) -> Mapping[str, Device]:
        """Devices by name, in the order of names, in which all algorithms take them."""
        return {device.name: device for device in sorted(self.devices, key=attrgetter("name"))}

    @cached_property
    def plans(self) -> Plans:
        """Plans found so far; all algorithms share them."""
        problems = {
            (name, edge): problem
            for name, device in self.by_name.items()
            for edge, problem in device.problems.items()
        }
        return Plans(problems, self.route)

    def reached(self, device: str) -> list[str]:
        """Edges that a device has a link to, in the order of names."""
        return sorted(self.by_name[device].problems)


def check_fleet(fleet: object) -> None:
    """Refuse anything but a `Fleet`."""
    check_kind("the fleet", fleet, Fleet, "a Fleet, such as fleet_of(...) makes")


@dataclass(frozen=True)
class Machine:
    """A device: its model, its speed and its links.

    Attributes
    ----------
    flops_per_s
        What it sustains.
    batch
        Samples per iteration.
    links_bps
        Bits per second to each edge that it reaches.
    """

    profile: ModelProfile
    flops_per_s: float
    batch: int
    links_bps: Mapping[str, float]


@dataclass(frozen=True)
class Server:
    """An edge server: what it sustains in all, and the bits per second of its uplink."""

    flops_per_s: float
    uplink_bps: float


def fleet_of(
    devices: Mapping[str, Machine],
    edges: Mapping[str, Server],
    *,
    cloud_flops_per_s: float,
    route: str = "bottleneck",
    backward_over_forward: float | None = None,
    overhead_s: float = 0.0,
) -> Fleet:
    """Fleet of machines that are not at hand: seconds proportional to FLOPs.

    Parameters
    ----------
    devices, edges
        By name.
    cloud_flops_per_s
        What each device gets of the cloud.
    route, backward_over_forward, overhead_s
        As for `problem_of`.
    """
    if not edges:
        raise UserError("a fleet has at least one edge; none was given")
    placed = []
    for name, machine in devices.items():
        problems = {}
        for edge, link_bps in machine.links_bps.items():
            server = edges[check_name(f"edge of device {name!r}", edge, edges)]
            problems[edge] = problem_of(
                machine.profile,
                flops_per_s={
                    "device": machine.flops_per_s,
                    "edge": server.flops_per_s,
                    "cloud": cloud_flops_per_s,
                },
                device_edge_bps=link_bps,
                edge_cloud_bps=server.uplink_bps,
                batch=machine.batch,
                route=route,
                backward_over_forward=backward_over_forward,
                overhead_s=overhead_s,
            )
        placed.append(Device(name, problems))
    return Fleet(tuple(placed), tuple(edges), route)


def _differing(first: Problem, other: Problem) -> str:
    """Name what should be the same in two problems and is not; empty if nothing."""
    if first.batch != other.batch:
        return "batch"
    for tier in ("device", "cloud"):
        if not np.array_equal(first.layer_s[tier], other.layer_s[tier]):
            return f"layer_s of {tier}"
        if not np.array_equal(first.update_s[tier], other.update_s[tier]):
            return f"update_s of {tier}"
    for name in ("param_bytes", "output_bytes", "sample_bytes", "overhead_s"):
        if not np.array_equal(getattr(first, name), getattr(other, name)):
            return name
    return ""

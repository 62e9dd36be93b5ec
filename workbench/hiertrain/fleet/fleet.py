"""Devices, the edges that each can reach, and the problem of each if alone there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workbench.errors import UserError
from workbench.hiertrain.costs.problem import Problem
from workbench.hiertrain.costs.profiled import ROUTES, through_edge
from workbench.hiertrain.fleet.plans import Plans
from workbench.names import check_name


@dataclass(frozen=True, eq=False)
class Device:
    """A device with its own model, speed and batch.

    Parameters
    ----------
    problems
        For each edge that it has a link to, the problem if it had that edge, its uplink and the
        cloud to itself. All of one model and batch.

    Raises
    ------
    ValueError
        No edge at all, or problems of which the device's own side differs.
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
        (first, one), *rest = self.problems.items()
        for edge, problem in rest:
            differing = _differing(one, problem)
            if differing:
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

    The cloud has room for all; equal parts of a smaller cloud are a slower cloud (see `fleet_of`).

    Parameters
    ----------
    devices
        With different names.
    edges
        Names of the edges, all different; one without devices that reach it stays idle.
    route
        How device and cloud reach each other, as for `through_edge`.

    Raises
    ------
    ValueError
        No devices or no edges, a name twice, an unknown edge, an edge whose uplink has several
        bandwidths, a bandwidth between device and cloud that is not the route's.
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
        for what, names in (("device", [one.name for one in self.devices]), ("edge", self.edges)):
            if not names:
                raise UserError(f"a fleet has at least one {what}; none was given")
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise UserError(f"several {what}s are called {', '.join(twice)}; rename them")
        uplinks_bps: dict[str, tuple[str, float]] = {}
        for device in self.devices:
            for edge, problem in device.problems.items():
                check_name(f"edge of device {device.name!r}", edge, self.edges)
                self._check_links(device.name, edge, problem, uplinks_bps)

    def _check_links(
        self,
        device: str,
        edge: str,
        problem: Problem,
        uplinks_bps: dict[str, tuple[str, float]],
    ) -> None:
        links = problem.bandwidth_bps
        uplink_bps = links["edge", "cloud"]
        other, other_bps = uplinks_bps.setdefault(edge, (device, uplink_bps))
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
        return {one.name: one for one in sorted(self.devices, key=lambda one: one.name)}

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
    """Refuse what is no `Fleet`."""
    if not isinstance(fleet, Fleet):
        raise TypeError(f"the fleet is {fleet!r}; give a Fleet, such as fleet_of(...) makes")


def _differing(one: Problem, other: Problem) -> str:
    """What of two problems should be the same and is not; empty if nothing."""
    if one.batch != other.batch:
        return "batch"
    for tier in ("device", "cloud"):
        if not np.array_equal(one.layer_s[tier], other.layer_s[tier]):
            return f"layer_s of {tier}"
        if not np.array_equal(one.update_s[tier], other.update_s[tier]):
            return f"update_s of {tier}"
    for name in ("param_bytes", "output_bytes", "sample_bytes", "overhead_s"):
        if not np.array_equal(getattr(one, name), getattr(other, name)):
            return name
    return ""

"""Devices, the edges that each can reach, and the problem of each if alone there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.hiertrain.costs.problem import Problem
from workbench.hiertrain.costs.profiled import problem_of
from workbench.hiertrain.fleet.plans import Plans
from workbench.utils.checks import UserError, check_kind, check_name

if TYPE_CHECKING:
    from workbench.profiles import ModelProfile


@dataclass(frozen=True, eq=False)
class Fleet:
    """Devices that train at the same time, edges that they share, and a cloud that they do not.

    The devices assigned to an edge share its compute equally, and equally its uplink; each share
    belongs, for the whole iteration, to those whose plan has any layers there. So with c devices
    that compute at the edge every layer and update takes c times as long there, and with u devices
    that use the cloud each has 1/u of the uplink's bandwidth. A server that shares among those who
    compute at the moment would give them more. The cloud has room for all.

    `fleet_of` makes one of machines and links.

    Parameters
    ----------
    problems
        By device and by each edge that it reaches, the problem if it had that edge, its uplink and
        the cloud to itself. All of a device are of one model and batch; an edge's uplink is the
        same for all devices, and through it they reach the cloud (`through_edge`). Kept in the
        order of names, in which all algorithms take devices and edges.
    """

    problems: Mapping[str, Mapping[str, Problem]]

    def __post_init__(self) -> None:
        if not self.problems:
            raise UserError("a fleet has at least one device; none was given")
        for name, by_edge in self.problems.items():
            if not by_edge:
                raise UserError(
                    f"device {name!r} has no link to any edge; give it one, or leave it out"
                )
        by_name = {
            name: dict(sorted(self.problems[name].items())) for name in sorted(self.problems)
        }
        object.__setattr__(self, "problems", by_name)

    @cached_property
    def plans(self) -> Plans:
        """Plans found so far; all algorithms share them."""
        return Plans(self.problems)


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
    devices: Mapping[str, Machine], edges: Mapping[str, Server], *, cloud_flops_per_s: float
) -> Fleet:
    """Fleet of machines that are not at hand: seconds proportional to FLOPs, as in `problem_of`.

    `devices` and `edges` are by name; `cloud_flops_per_s` is what each device gets of the cloud.
    """
    problems = {}
    for name, machine in devices.items():
        problems[name] = by_edge = dict[str, Problem]()
        for edge, link_bps in machine.links_bps.items():
            server = edges[check_name(f"edge of device {name!r}", edge, edges)]
            by_edge[edge] = problem_of(
                machine.profile,
                flops_per_s={
                    "device": machine.flops_per_s,
                    "edge": server.flops_per_s,
                    "cloud": cloud_flops_per_s,
                },
                device_edge_bps=link_bps,
                edge_cloud_bps=server.uplink_bps,
                batch=machine.batch,
            )
    return Fleet(problems)

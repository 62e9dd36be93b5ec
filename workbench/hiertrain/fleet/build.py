"""Fleets from profiles: devices, edge servers and a cloud by their FLOP/s and links."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import UserError
from workbench.hiertrain.costs.profiled import problem_of
from workbench.hiertrain.fleet.fleet import Device, Fleet
from workbench.names import check_name

if TYPE_CHECKING:
    from workbench.profiles import ModelProfile


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
    cloud_capacity_flops_per_s: float = math.inf,
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
        What a device gets of the cloud at most.
    cloud_capacity_flops_per_s
        What the cloud has in all; each device gets an equal part at most, whether the others use
        theirs or not.
    route, backward_over_forward, overhead_s
        As for `problem_of`.

    Raises
    ------
    ValueError
        As for `Fleet` and `problem_of`; a capacity that is not positive.
    """
    if not edges:
        raise UserError("a fleet has at least one edge; none was given")
    if not cloud_capacity_flops_per_s > 0:
        raise UserError(
            f"cloud_capacity_flops_per_s is {cloud_capacity_flops_per_s}; it must be positive"
        )
    part = min(cloud_flops_per_s, cloud_capacity_flops_per_s / max(len(devices), 1))
    found = []
    for name, machine in devices.items():
        problems = {}
        for edge, link_bps in machine.links_bps.items():
            server = edges[check_name(f"edge of device {name!r}", edge, edges)]
            problems[edge] = problem_of(
                machine.profile,
                flops_per_s={
                    "device": machine.flops_per_s,
                    "edge": server.flops_per_s,
                    "cloud": part,
                },
                device_edge_bps=link_bps,
                edge_cloud_bps=server.uplink_bps,
                batch=machine.batch,
                route=route,
                backward_over_forward=backward_over_forward,
                overhead_s=overhead_s,
            )
        found.append(Device(name, problems))
    return Fleet(tuple(found), tuple(edges), route)

"""Every device plans as in the paper, as if it were the only one."""

from __future__ import annotations

from workbench.hiertrain.fleet.assignment import Assignment, timed
from workbench.hiertrain.fleet.fleet import Fleet, check_fleet


def alone(fleet: Fleet) -> Assignment:
    """Best edge and policy of each device by itself, timed with all of them at once.

    Of edges equally good for a device, the one that comes first by name.
    """
    check_fleet(fleet)
    edges = {
        name: min(fleet.reached(name), key=lambda edge: fleet.plans.alone(name, edge).total_s)
        for name in fleet.by_name
    }
    policies = {name: fleet.plans.alone(name, edge).policy for name, edge in edges.items()}
    return timed(fleet, edges, policies)

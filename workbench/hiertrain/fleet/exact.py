"""The best of all assignments of devices to edges, for small fleets."""

from __future__ import annotations

import math
from itertools import product

from workbench.errors import UserError
from workbench.hiertrain.fleet.assignment import Assignment, planned
from workbench.hiertrain.fleet.fleet import Fleet, check_fleet
from workbench.hiertrain.fleet.value import Value

LIMIT = 1000
"""Most assignments that are tried by default."""


class TooManyError(UserError):
    """More assignments than are to be tried."""


def exact(fleet: Fleet, objective: str = "slowest", limit: int = LIMIT) -> Assignment:
    """Best assignment with the best policies for it, under equal shares; tries all.

    Of several equally good, the first by names of edges, device by device.

    Parameters
    ----------
    objective
        As for `assign`. With ``"slowest"`` the mean is the least over plans in which the slowest
        device of each edge is as fast as possible, even at edges that decide nothing.
    limit
        Assignments that may be tried.

    Raises
    ------
    TooManyError
        There are more than `limit`.
    UnknownNameError
        Another objective.
    """
    check_fleet(fleet)
    reached = [fleet.reached(name) for name in fleet.by_name]
    count = math.prod(map(len, reached))
    if count > limit:
        raise TooManyError(
            f"{len(reached)} devices have {count:,} assignments to their edges, more than the "
            f"limit of {limit:,}; use assign, or raise the limit"
        )
    value = Value(fleet, objective)
    every = (dict(zip(fleet.by_name, edges, strict=True)) for edges in product(*reached))
    return planned(fleet, min(every, key=value), objective)

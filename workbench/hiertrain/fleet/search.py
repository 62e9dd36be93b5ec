"""Devices to edges: by local search from two starts, and by trying all assignments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product

from workbench.hiertrain.fleet.assignment import OBJECTIVES, Assignment, alone, planned
from workbench.hiertrain.fleet.fleet import Fleet, check_fleet
from workbench.utils.checks import UserError, choose

Edges = Mapping[str, str]
Value = Callable[[Edges], tuple[float, float]]
"""What is minimised of the best plans for some edges, then what decides between equals."""

LIMIT = 1000
"""Most assignments that `exact` tries by default."""


class TooManyError(UserError):
    """More assignments than are to be tried."""


def assign(fleet: Fleet, objective: str = "slowest") -> Assignment:
    """Good assignment and, for it, the best policies.

    Two starts: the edges that devices choose by themselves (`alone`), and a greedy assignment that
    takes the devices from the slowest on, each to the edge at which the objective so far is least.
    From each, the best move of one device or swap of two is made until none improves. The better
    result is never worse than `alone`. Ties are decided by name, so the order of devices and edges
    does not matter.

    Parameters
    ----------
    objective
        ``"slowest"``, the default: the slowest device's iteration, since all wait for all; then the
        mean. ``"mean"``: the mean; then the slowest.
    """
    value = value_of(fleet, objective)
    by_themselves = alone(fleet)
    ends = [_improved(fleet, value, edges) for edges in (greedy(fleet, value), by_themselves.edges)]
    best = planned(fleet, min(ends, key=value), objective)
    # Sums round: where joint planning changes nothing, it must not lose a unit in the last place.
    return min(best, by_themselves, key=OBJECTIVES[objective])


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
    """
    value = value_of(fleet, objective)
    reached = [fleet.reached(name) for name in fleet.by_name]
    count = math.prod(map(len, reached))
    if count > limit:
        raise TooManyError(
            f"{len(reached)} devices have {count:,} assignments to their edges, more than the "
            f"limit of {limit:,}; use assign, or raise the limit"
        )
    every = (dict(zip(fleet.by_name, edges, strict=True)) for edges in product(*reached))
    return planned(fleet, min(every, key=value), objective)


def value_of(fleet: Fleet, objective: str) -> Value:
    """Return how assignments of a fleet, which may lack some devices, are compared."""
    check_fleet(fleet)
    key = choose("objective", objective, OBJECTIVES)
    return lambda edges: key(planned(fleet, edges, objective))


def greedy(fleet: Fleet, value: Value) -> Edges:
    """Take the devices from the slowest on, each to the edge at which the value is least."""

    def fastest_s(name: str) -> float:
        return min(fleet.plans.alone(name, edge).total_s for edge in fleet.reached(name))

    edges: dict[str, str] = {}
    for name in sorted(fleet.by_name, key=lambda name: (-fastest_s(name), name)):
        tried = [edges | {name: edge} for edge in fleet.reached(name)]
        edges = min(tried, key=value)
    return edges


def _improved(fleet: Fleet, value: Value, edges: Edges) -> Edges:
    best, known = edges, value(edges)
    while True:
        near = min(_neighbours(fleet, best), key=value, default=best)
        if value(near) >= known:
            return best
        best, known = near, value(near)


def _neighbours(fleet: Fleet, edges: Edges) -> Iterator[Edges]:
    """Assignments that differ in the edge of one device, or by a swap of two."""
    for name, edge in edges.items():
        for other in fleet.reached(name):
            if other != edge:
                yield {**edges, name: other}
    for first, second in combinations(sorted(edges), 2):
        if (
            edges[first] != edges[second]
            and edges[second] in fleet.reached(first)
            and edges[first] in fleet.reached(second)
        ):
            yield {**edges, first: edges[second], second: edges[first]}

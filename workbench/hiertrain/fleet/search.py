"""Devices to edges: by local search from two starts, and by trying all assignments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product
from operator import attrgetter

from workbench.hiertrain.fleet.assignment import Assignment, alone, planned
from workbench.hiertrain.fleet.fleet import Fleet, check_fleet
from workbench.utils.checks import UserError

Edges = Mapping[str, str]
Value = Callable[[Edges], tuple[float, float]]
"""What is minimised of the best plans for some edges, then what decides between equals."""

LIMIT = 1000
"""Most assignments that `exact` tries."""


class TooManyError(UserError):
    """More assignments than are to be tried."""


def assign(fleet: Fleet) -> Assignment:
    """Good assignment and, for it, the best policies.

    The slowest device's iteration counts, since all wait for all; then the mean. Two starts: the
    edges that devices choose by themselves (`alone`), and a greedy assignment that takes the
    devices from the slowest on, each to the edge at which the objective so far is least. From each,
    the best move of one device or swap of two is made until none improves. The better result is
    never worse than `alone`. Ties are decided by name, so the order of devices and edges does not
    matter.
    """
    by_themselves = alone(fleet)
    value = value_of(fleet)
    ends = [_improved(fleet, value, edges) for edges in (greedy(fleet, value), by_themselves.edges)]
    best = planned(fleet, min(ends, key=value))
    # Sums round: where joint planning changes nothing, it must not lose a unit in the last place.
    return min(best, by_themselves, key=attrgetter("objective"))


def exact(fleet: Fleet) -> Assignment:
    """Best assignment with the best policies for it, under equal shares; tries all.

    As in `assign` the slowest device counts, then the mean: the least over plans in which the
    slowest of each edge is as fast as possible, even at edges that decide nothing. Of several
    equally good, the first by names of edges, device by device.

    Raises
    ------
    TooManyError
        There are more than `LIMIT` assignments.
    """
    check_fleet(fleet)
    count = math.prod(map(len, fleet.problems.values()))
    if count > LIMIT:
        raise TooManyError(
            f"{len(fleet.problems)} devices have {count:,} assignments to their edges, more than "
            f"the limit of {LIMIT:,}; use assign"
        )
    every = product(*fleet.problems.values())
    assignments = (dict(zip(fleet.problems, edges, strict=True)) for edges in every)
    return planned(fleet, min(assignments, key=value_of(fleet)))


def value_of(fleet: Fleet) -> Value:
    """Return how assignments of a fleet, which may lack some devices, are compared."""
    return lambda edges: planned(fleet, edges).objective


def greedy(fleet: Fleet, value: Value) -> Edges:
    """Take the devices from the slowest on, each to the edge at which the value is least."""

    def fastest_s(name: str) -> float:
        return min(fleet.plans.alone(name, edge).total_s for edge in fleet.problems[name])

    edges: dict[str, str] = {}
    for name in sorted(fleet.problems, key=lambda name: (-fastest_s(name), name)):
        edges = min((edges | {name: edge} for edge in fleet.problems[name]), key=value)
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
        for other in fleet.problems[name]:
            if other != edge:
                yield {**edges, name: other}
    for first, second in combinations(sorted(edges), 2):
        if (
            edges[first] != edges[second]
            and edges[second] in fleet.problems[first]
            and edges[first] in fleet.problems[second]
        ):
            yield {**edges, first: edges[second], second: edges[first]}

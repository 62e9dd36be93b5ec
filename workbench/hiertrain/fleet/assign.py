"""Devices to edges by a heuristic: greedy, then local search by moves and swaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from workbench.hiertrain.fleet.alone import alone
from workbench.hiertrain.fleet.assignment import OBJECTIVES, Assignment, planned
from workbench.hiertrain.fleet.fleet import Fleet, check_fleet
from workbench.hiertrain.fleet.value import Value

Edges = Mapping[str, str]


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

    Raises
    ------
    UnknownNameError
        Another objective.
    """
    check_fleet(fleet)
    value = Value(fleet, objective)
    by_themselves = alone(fleet)
    ends = [
        _improved(fleet, value, edges) for edges in (_greedy(fleet, value), by_themselves.edges)
    ]
    best = planned(fleet, min(ends, key=value), objective)
    # Sums round: where joint planning changes nothing, it must not lose a unit in the last place.
    return min(best, by_themselves, key=OBJECTIVES[objective])


def _greedy(fleet: Fleet, value: Value) -> Edges:
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
    for one, two in combinations(sorted(edges), 2):
        if (
            edges[one] != edges[two]
            and edges[two] in fleet.reached(one)
            and edges[one] in fleet.reached(two)
        ):
            yield {**edges, one: edges[two], two: edges[one]}

"""Values of assignments of devices to edges, edge by edge."""

from __future__ import annotations

import math
from collections.abc import Mapping

from workbench.hiertrain.fleet.assignment import OBJECTIVES, groups
from workbench.hiertrain.fleet.fleet import Fleet
from workbench.hiertrain.fleet.joint import joint
from workbench.names import check_name

Key = tuple[float, float]


class Value:
    """Values of assignments for one objective; edges with the same devices are planned once."""

    def __init__(self, fleet: Fleet, objective: str) -> None:
        check_name("objective", objective, OBJECTIVES)
        self._fleet = fleet
        self._objective = objective
        self._seconds: dict[tuple[str, tuple[str, ...]], list[float]] = {}

    def __call__(self, edges: Mapping[str, str]) -> Key:
        """Return what is minimised, then what decides between equals.

        As `OBJECTIVES` of the planned assignment, bit for bit; `edges` may lack some devices.
        """
        found = [
            seconds
            for edge, names in groups(self._fleet, edges).items()
            for seconds in self._of_edge(edge, names)
        ]
        slowest_s, mean_s = max(found), math.fsum(found) / len(found)
        return (slowest_s, mean_s) if self._objective == "slowest" else (mean_s, slowest_s)

    def _of_edge(self, edge: str, names: tuple[str, ...]) -> list[float]:
        key = edge, names
        if key not in self._seconds:
            self._seconds[key] = joint(self._fleet.plans, edge, names, self._objective)[1]
        return self._seconds[key]

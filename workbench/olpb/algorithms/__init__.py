"""Methods of back-propagation, parallel scans, and planners of memory, by name."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.memory.packing import PACKERS
from workbench.memory.pebble import pebble
from workbench.olpb.algorithms import schedules
from workbench.olpb.algorithms.decoupled import cut
from workbench.olpb.algorithms.levels import GROUPINGS, METHODS

SCANS = schedules.ALGORITHMS

ALGORITHMS: dict[str, Mapping[str, object]] = {
    "methods": {**GROUPINGS, "dpb": cut},
    "scans": SCANS,
    "planners": {"pebble": pebble, **PACKERS},
}
"""All registries of this system by what they hold."""

__all__ = ["ALGORITHMS", "METHODS", "SCANS"]

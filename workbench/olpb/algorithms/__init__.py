"""Methods of back-propagation, parallel scans, and planners of memory, by name."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.memory.packing import PACKERS
from workbench.memory.pebble import pebble
from workbench.olpb.algorithms.decoupled import cut
from workbench.olpb.algorithms.levels import bppsa, olpb
from workbench.olpb.algorithms.scans import SCANS

SCANNING = ("olpb", "bppsa")
"""Methods that scan Jacobians of groups."""
METHODS = (*SCANNING, "dpb", "sequential")
"""Ways of back-propagation (Sec. VII); DPB's gradients are late, the others' exact."""

ALGORITHMS: dict[str, Mapping[str, object]] = {
    "methods": {"olpb": olpb, "bppsa": bppsa, "dpb": cut},
    "scans": SCANS,
    "planners": {"pebble": pebble, **PACKERS},
}
"""All registries of this system by what they hold."""

__all__ = ["ALGORITHMS", "METHODS", "SCANNING", "SCANS"]

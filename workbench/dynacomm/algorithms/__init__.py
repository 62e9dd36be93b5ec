"""DynaComm's planners by name."""

from __future__ import annotations

from collections.abc import Callable

from workbench.dynacomm.algorithms.dynacomm import dynacomm
from workbench.dynacomm.algorithms.ibatch import ibatch
from workbench.dynacomm.algorithms.layer_by_layer import layer_by_layer
from workbench.dynacomm.algorithms.mg_wfbp import mg_wfbp
from workbench.dynacomm.algorithms.sequential import sequential
from workbench.dynacomm.costs.iteration import LayerCosts
from workbench.dynacomm.costs.plan import Plan

Planner = Callable[[LayerCosts], Plan]

PLANNERS: dict[str, Planner] = {
    "sequential": sequential,
    "layer_by_layer": layer_by_layer,
    "ibatch": ibatch,
    "dynacomm": dynacomm,
    "mg_wfbp": mg_wfbp,
}

ALGORITHMS = {"planners": PLANNERS}
"""All registries of this system by what they hold."""

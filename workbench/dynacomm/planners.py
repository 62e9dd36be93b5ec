"""All planners of this problem by name."""

from __future__ import annotations

from collections.abc import Callable

from workbench.dynacomm.costs import LayerCosts
from workbench.dynacomm.dynacomm import dynacomm
from workbench.dynacomm.ibatch import ibatch
from workbench.dynacomm.layer_by_layer import layer_by_layer
from workbench.dynacomm.mg_wfbp import mg_wfbp
from workbench.dynacomm.plan import Plan
from workbench.dynacomm.sequential import sequential

Planner = Callable[[LayerCosts], Plan]

PLANNERS: dict[str, Planner] = {
    "sequential": sequential,
    "layer_by_layer": layer_by_layer,
    "ibatch": ibatch,
    "dynacomm": dynacomm,
    "mg_wfbp": mg_wfbp,
}

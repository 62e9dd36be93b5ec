"""HierTrain's planners by name."""

from __future__ import annotations

from collections.abc import Callable

from workbench.hiertrain.algorithms.all_cloud import all_cloud
from workbench.hiertrain.algorithms.all_edge import all_edge
from workbench.hiertrain.algorithms.hiertrain import hiertrain
from workbench.hiertrain.algorithms.jalad import jalad
from workbench.hiertrain.algorithms.jointdnn import jointdnn
from workbench.hiertrain.algorithms.jointdnn_plus import jointdnn_plus
from workbench.hiertrain.costs.policy import Policy
from workbench.hiertrain.costs.problem import Problem

Planner = Callable[[Problem], Policy]

PLANNERS: dict[str, Planner] = {
    "hiertrain": hiertrain,
    "all_edge": all_edge,
    "all_cloud": all_cloud,
    "jointdnn": jointdnn,
    "jointdnn_plus": jointdnn_plus,
    "jalad": jalad,
}

ALGORITHMS = {"planners": PLANNERS}
"""All registries of this system by what they hold."""

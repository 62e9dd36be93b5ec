"""All planners of this problem by name."""

from __future__ import annotations

from collections.abc import Callable

from workbench.hiertrain.all_cloud import all_cloud
from workbench.hiertrain.all_edge import all_edge
from workbench.hiertrain.hiertrain import hiertrain
from workbench.hiertrain.jalad import jalad
from workbench.hiertrain.jointdnn import jointdnn
from workbench.hiertrain.jointdnn_plus import jointdnn_plus
from workbench.hiertrain.policy import Policy
from workbench.hiertrain.problem import Problem

Planner = Callable[[Problem], Policy]

PLANNERS: dict[str, Planner] = {
    "hiertrain": hiertrain,
    "all_edge": all_edge,
    "all_cloud": all_cloud,
    "jointdnn": jointdnn,
    "jointdnn_plus": jointdnn_plus,
    "jalad": jalad,
}

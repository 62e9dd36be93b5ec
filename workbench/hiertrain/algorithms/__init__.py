"""HierTrain's planners by name."""

from __future__ import annotations

from collections.abc import Callable

from workbench.hiertrain.algorithms.baselines import (
    all_cloud,
    all_edge,
    jalad,
    jointdnn,
    jointdnn_plus,
)
from workbench.hiertrain.algorithms.hiertrain import hiertrain
from workbench.hiertrain.algorithms.linear_programme import linear_programme
from workbench.hiertrain.costs import Policy, Problem

Planner = Callable[[Problem], Policy]

FAST: dict[str, Planner] = {
    "hiertrain": hiertrain,
    "all_edge": all_edge,
    "all_cloud": all_cloud,
    "jointdnn": jointdnn,
    "jointdnn_plus": jointdnn_plus,
    "jalad": jalad,
}
"""Planners that charts and comparisons run over: milliseconds each."""

PLANNERS: dict[str, Planner] = {**FAST, "linear_programme": linear_programme}
"""All planners; the paper's own algorithm for HierTrain takes seconds, and is never better."""

ALGORITHMS = {"planners": PLANNERS}
"""All registries of this system by what they hold."""

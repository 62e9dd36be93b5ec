"""DynaComm: when to send which layer between worker and parameter server.

Cai et al., "DynaComm: Accelerating Distributed CNN Training between Edges and Clouds through
Dynamic Communication Scheduling", 2021.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.dynacomm.algorithms import ALGORITHMS, PLANNERS
from workbench.dynacomm.costs.iteration import (
    Iteration,
    LayerCosts,
    Phase,
    iteration,
    layer_costs,
    timeline,
)
from workbench.dynacomm.costs.plan import Plan
from workbench.dynacomm.training import Setup, Trained, TrainingError, train
from workbench.system import SystemInfo

if TYPE_CHECKING:
    from workbench.experiments.figure import Figure, Together
    from workbench.parameters import Parameters

__all__ = [
    "PLANNERS",
    "SYSTEM",
    "Iteration",
    "LayerCosts",
    "Phase",
    "Plan",
    "Setup",
    "Trained",
    "TrainingError",
    "iteration",
    "layer_costs",
    "timeline",
    "train",
]


def _setting() -> type[Parameters]:
    from workbench.dynacomm.explorer import Setting

    return Setting


def _figures() -> tuple[Figure | Together, ...]:
    from workbench.dynacomm.paper.figures import FIGURES

    return FIGURES


SYSTEM = SystemInfo(
    title="DynaComm", algorithms=ALGORITHMS, setup=lambda: Setup, setting=_setting, figures=_figures
)

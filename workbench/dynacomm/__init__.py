"""DynaComm: when to send which layer between worker and parameter server.

Cai et al., "DynaComm: Accelerating Distributed CNN Training between Edges and Clouds through
Dynamic Communication Scheduling", 2021.
"""

from __future__ import annotations

from workbench.dynacomm.algorithms import PLANNERS
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

__all__ = [
    "PLANNERS",
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

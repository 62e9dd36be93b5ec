"""DynaComm: when to send which layer between worker and parameter server.

Cai et al., "DynaComm: Accelerating Distributed CNN Training between Edges and Clouds through
Dynamic Communication Scheduling", 2021.
"""

from __future__ import annotations

from workbench.dynacomm.costs import (
    Iteration,
    LayerCosts,
    Phase,
    Plan,
    iteration,
    layer_costs,
    timeline,
)
from workbench.dynacomm.planners import PLANNERS
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

"""DynaComm: when to send which layer between worker and parameter server.

Cai et al., "DynaComm: Accelerating Distributed CNN Training between Edges and Clouds through
Dynamic Communication Scheduling", 2021.
"""

from workbench.dynacomm.costs import Iteration, LayerCosts, Phase, iteration, layer_costs
from workbench.dynacomm.plan import Plan
from workbench.dynacomm.planners import PLANNERS
from workbench.dynacomm.timeline import timeline

__all__ = [
    "PLANNERS",
    "Iteration",
    "LayerCosts",
    "Phase",
    "Plan",
    "iteration",
    "layer_costs",
    "timeline",
]

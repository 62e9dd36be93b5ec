"""OLPB: the operators of any model, their memory in one block, and what to give for less.

>>> from workbench import graphs, olpb
>>> graph, _ = olpb.optimise(graphs.trace("lenet5", batch_size=8, training=True))
>>> plan = olpb.plan_memory(graph)
>>> plan.total_bytes == plan.bound_bytes
True

Zhao, Vandenhove, Xu, Tao, Wang, Liu and Crowcroft, *Parallel and Memory-Efficient Distributed Edge
Learning in B5G IoT Networks*. `optimise` makes an equal graph of fewer operators; `plan_memory`
orders them and gives each result its place in one block, within a budget if asked, by computing
some again; an `Arena` runs the graph there; `pack` places buffers alone. `scan_gradients` computes
gradients by a parallel scan over groups of operators, exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.olpb.memory.packing import pack
from workbench.olpb.memory.plan import MemoryPlan, PlanError, certify
from workbench.olpb.memory.planning import PLANNERS, plan_memory
from workbench.olpb.memory.recomputation import BudgetError

if TYPE_CHECKING:
    from workbench.olpb.algorithms.gradients import scan_gradients
    from workbench.olpb.memory.arena import Arena
    from workbench.olpb.optimiser.optimise import Optimised, optimise

__all__ = [
    "PLANNERS",
    "Arena",
    "BudgetError",
    "MemoryPlan",
    "Optimised",
    "PlanError",
    "certify",
    "optimise",
    "pack",
    "plan_memory",
    "scan_gradients",
]

_WITH_TORCH = {
    "Arena": "workbench.olpb.memory.arena",
    "Optimised": "workbench.olpb.optimiser.optimise",
    "optimise": "workbench.olpb.optimiser.optimise",
    "scan_gradients": "workbench.olpb.algorithms.gradients",
}


def __getattr__(name: str) -> Any:
    """Import what needs PyTorch when it is asked for."""
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WITH_TORCH[name]), name)

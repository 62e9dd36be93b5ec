"""OLPB: the operators of any model, their memory in one block, and what to give for less.

>>> from workbench import graphs, olpb
>>> graph, _ = olpb.optimise(graphs.trace("lenet5", batch_size=8, training=True))
>>> plan = olpb.plan_memory(graph)
>>> plan.total_bytes == plan.bound_bytes
True

Zhao, Vandenhove, Xu, Tao, Wang, Liu and Crowcroft, *Parallel and Memory-Efficient Distributed Edge
Learning in B5G IoT Networks*. `optimise` makes an equal graph of fewer operators; `plan_memory`
orders them and gives each result its place in one block, within a budget if asked, by computing
some again; `needs` says what a process takes that runs it, `trade` what each budget costs; an
`Arena` runs the graph there; `pack` places buffers alone. `scan_gradients` computes gradients by a
parallel scan over groups of operators, exactly; `train` trains on a simulated `Pool` of nodes, by
one of `METHODS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.memory import (
    PLANNERS,
    BudgetError,
    MemoryPlan,
    Needs,
    PlanError,
    certify,
    needs,
    pack,
    plan_memory,
    trade,
)
from workbench.olpb.algorithms.levels import METHODS
from workbench.olpb.costs.subtasks import Node, Pool

if TYPE_CHECKING:
    from workbench.graphs.optimiser import Optimised, optimise
    from workbench.memory import Arena, measure_memory
    from workbench.olpb.algorithms.gradients import scan_gradients
    from workbench.olpb.training import Setup, Trained, TrainingError, train

__all__ = [
    "METHODS",
    "PLANNERS",
    "Arena",
    "BudgetError",
    "MemoryPlan",
    "Needs",
    "Node",
    "Optimised",
    "PlanError",
    "Pool",
    "Setup",
    "Trained",
    "TrainingError",
    "certify",
    "measure_memory",
    "needs",
    "optimise",
    "pack",
    "plan_memory",
    "scan_gradients",
    "trade",
    "train",
]

_WITH_TORCH = {
    "Arena": "workbench.memory.arena",
    "Optimised": "workbench.graphs.optimiser",
    "measure_memory": "workbench.memory.measured",
    "optimise": "workbench.graphs.optimiser",
    "scan_gradients": "workbench.olpb.algorithms.gradients",
    **dict.fromkeys(("Setup", "Trained", "TrainingError", "train"), "workbench.olpb.training"),
}


def __getattr__(name: str) -> Any:
    """Import what needs PyTorch when it is asked for."""
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WITH_TORCH[name]), name)


def __dir__() -> list[str]:
    """List these names, too: for completion and the reference."""
    return __all__

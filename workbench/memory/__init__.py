"""The memory of any model's step: an order, a place for each result, and the price of a budget.

>>> from workbench import memory
>>> plan = memory.plan_memory(memory.trace("lenet5", batch_size=8, training=True))
>>> plan.total_bytes == plan.bound_bytes
True

`trace` records a model's operators as a graph, which `optimise` makes smaller and `run` runs.
`plan_memory` orders them and gives each result its place in one block, within a budget if asked, by
computing some again; an `Arena` runs the graph in that block.
`needs` says what a process takes that runs it, `trade` what each budget costs, `measure_memory`
what PyTorch takes; `stored_dataflow` knows the models of the zoo without PyTorch; `pack` places
buffers alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.memory.budgets import trade
from workbench.memory.dataflow import Dataflow, dataflow
from workbench.memory.orders import ORDERS
from workbench.memory.packing import PACKERS, pack
from workbench.memory.plan import MemoryPlan, PlanError, certify
from workbench.memory.planning import PLANNERS, plan_memory
from workbench.memory.process import Needs, needs
from workbench.memory.recomputation import BudgetError
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.memory.tracing import trace

if TYPE_CHECKING:
    from workbench.memory.arena import Arena
    from workbench.memory.executor import run
    from workbench.memory.fitting import fit, largest_batch, load_fit
    from workbench.memory.fitting.profile import workspace_bytes
    from workbench.memory.measured import measure_memory
    from workbench.memory.optimiser import optimise

__all__ = [
    "ORDERS",
    "PACKERS",
    "PLANNERS",
    "Arena",
    "BudgetError",
    "Dataflow",
    "MemoryPlan",
    "Needs",
    "PlanError",
    "certify",
    "dataflow",
    "fit",
    "largest_batch",
    "load_fit",
    "measure_memory",
    "needs",
    "optimise",
    "pack",
    "plan_memory",
    "run",
    "stored_dataflow",
    "trace",
    "trade",
    "workspace_bytes",
]

_WITH_TORCH = {
    "Arena": "arena",
    "fit": "fitting",
    "largest_batch": "fitting",
    "load_fit": "fitting",
    "measure_memory": "measured",
    "optimise": "optimiser",
    "run": "executor",
    "workspace_bytes": "fitting.profile",
}


def __getattr__(name: str) -> Any:
    """Import names that need PyTorch on first access."""
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_WITH_TORCH[name]}"), name)


def __dir__() -> list[str]:
    """List these names, too: for completion and the reference."""
    return __all__

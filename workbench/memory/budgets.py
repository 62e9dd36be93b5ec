"""Less memory for more work: the price of each budget."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
import polars as pl

from workbench.memory.dataflow import Dataflow, flow_of
from workbench.memory.lifetimes import plain_bytes
from workbench.memory.orders import least_bound
from workbench.memory.plan import MemoryPlan
from workbench.memory.planning import least_budget, plan_memory
from workbench.memory.recomputation import BudgetError, cost
from workbench.profiles.graph import OperatorGraph
from workbench.utils.checks import listed, parse_budget

POINTS = 12
"""Budgets of a curve by default."""

_SCHEMA: dict[str, type[pl.DataType]] = {
    "budget_bytes": pl.Int64,
    "total_bytes": pl.Int64,
    "bound_bytes": pl.Int64,
    "extra_work": pl.Float64,
    "extra_flops": pl.Int64,
    "recomputed": pl.Int64,
    "reason": pl.String,
}


def trade(
    graph: OperatorGraph | Dataflow, budgets: Iterable[str | int] | None = None
) -> pl.DataFrame:
    """Price of each budget, a row each, in descending order; the same at every call.

    ``extra_work`` is what runs again as a share of all work, in FLOPs plus bytes read and made,
    and so about a share of seconds; ``extra_flops`` its FLOPs; ``recomputed`` counts operators.
    ``total_bytes`` and ``bound_bytes`` are the plan's. Where there is no plan, these are null, and
    ``reason`` says why. Budgets are as for `plan_memory`; by default they go from what is needed
    without computing again, in even ratios, down to the least that was reached.

    Raises ValueError: a budget that is neither bytes, nor a size, nor a share.
    """
    flow = flow_of(graph)
    once = plan_memory(flow, order=least_bound(flow))
    if budgets is None:
        least, most = least_budget(once), once.total_bytes
        shares = np.geomspace(1, least / most, POINTS) if least else [1.0]
        chosen = {int(np.ceil(most * share)) for share in shares}
    else:
        asked = listed("budgets", budgets, "give bytes, such as (64_000_000, 32_000_000)")
        chosen = {parse_budget(budget, partial(plain_bytes, flow)) for budget in asked}
    rows: list[dict[str, object]] = []
    best: MemoryPlan | None = None
    for budget in sorted(chosen):  # what fits a smaller budget fits a larger one
        row: dict[str, object] = {"budget_bytes": budget}
        try:
            plan = once
            if once.total_bytes > budget:
                plan = plan_memory(flow, budget=budget, order=once.order, rounds=1)
            if best is None or extra_work(flow, plan) <= extra_work(flow, best):
                best = plan
        except BudgetError as error:
            row["reason"] = None if best else str(error)
        if best is not None:
            row |= {
                "total_bytes": best.total_bytes,
                "bound_bytes": best.bound_bytes,
                "extra_work": extra_work(flow, best),
                "extra_flops": sum(best.flow.steps[at].flops for at in best.recomputed),
                "recomputed": len(best.recomputed),
            }
        rows.append(row)
    return pl.DataFrame(rows[::-1], _SCHEMA)


def extra_work(flow: Dataflow, plan: MemoryPlan) -> float:
    """Work of a plan beyond that of its dataflow, as a share."""
    once = float(cost(flow).sum())
    return (float(cost(plan.flow).sum()) - once) / once if once else 0.0

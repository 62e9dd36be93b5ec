"""Work against bytes: what a smaller budget costs, down to the least that can be reached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from workbench.checks import check_whole, listed
from workbench.graphs.operator_graph import OperatorGraph
from workbench.olpb.memory.dataflow import ALIGNMENT, Dataflow
from workbench.olpb.memory.lifetimes import lifetimes
from workbench.olpb.memory.packing import pack
from workbench.olpb.memory.plan import MemoryPlan, certify
from workbench.olpb.memory.planning import flow_of, less, quick_order
from workbench.olpb.memory.recomputation import BudgetError, cost, least_bytes

POINTS = 12
"""Budgets of a curve, if none are given."""
ROUNDS = 4
"""Of packing, so that the same curve comes out each time."""
CLOSE = 0.02
"""How near the least reachable budget is found, as a share."""

_SCHEMA: dict[str, Any] = {
    "budget_bytes": pl.Int64,
    "total_bytes": pl.Int64,
    "bound_bytes": pl.Int64,
    "extra_work": pl.Float64,
    "extra_flops": pl.Int64,
    "recomputed": pl.Int64,
    "reason": pl.String,
}


def trade(
    graph: OperatorGraph | Dataflow,
    budgets: Iterable[int] | None = None,
    *,
    alignment: int = ALIGNMENT,
) -> pl.DataFrame:
    """What each budget costs, a row each, in descending order; the same at every call.

    ``extra_work`` is what runs again as a share of all work, in FLOPs plus bytes read and made,
    and so about a share of seconds; ``extra_flops`` its FLOPs; ``recomputed`` counts operators.
    ``total_bytes`` and ``bound_bytes`` are the plan's. Where there is no plan, these are null, and
    ``reason`` says why. By default budgets go from what is needed without computing again, in
    even ratios, down to the least that was reached.

    Raises ValueError: budgets that are no whole numbers of at least 0.
    """
    flow = flow_of(graph, alignment)
    order = quick_order(flow)
    if budgets is None:
        chosen = _budgets(flow, order)
    else:
        asked = listed("budgets", budgets, "give bytes, such as (64_000_000, 32_000_000)")
        chosen = {check_whole("a budget", one, 0) for one in asked}
    rows: list[tuple[Any, ...]] = []
    best: MemoryPlan | None = None
    for budget in sorted(chosen):  # what fits a smaller budget fits a larger one
        try:
            plan = planned(flow, order, budget)
        except BudgetError as error:
            if best is None:
                rows.append((budget, None, None, None, None, None, str(error)))
                continue
            plan = best
        if best is None or extra_work(flow, plan) <= extra_work(flow, best):
            best = plan
        rows.append((budget, *_described(flow, best)))
    return pl.DataFrame(rows[::-1], _SCHEMA, orient="row")


def least_reachable(flow: Dataflow, order: Sequence[int] | None = None) -> int:
    """Bytes alive at once in the smallest plan that computing again reaches, to 2 %."""
    order = quick_order(flow) if order is None else order
    reached = lifetimes(flow, order).bound_bytes
    below = least_bytes(flow) - 1
    while reached - below > max(1, CLOSE * reached):
        middle = (reached + below) // 2
        try:
            found = less(flow, order, middle)
        except BudgetError:
            below = middle
        else:
            bounds = [lifetimes(one, range(len(one.steps))).bound_bytes for one in found]
            reached = min(*bounds, middle)
    return reached


def planned(flow: Dataflow, order: Sequence[int], budget_bytes: int) -> MemoryPlan:
    """A certified plan within a budget, at little extra work; the same at every call.

    Raises `BudgetError`.
    """
    plan = _packed(flow, order)
    room = budget_bytes
    while plan.total_bytes > budget_bytes:
        found = less(flow, order, room)
        plans = [_packed(one, range(len(one.steps))) for one in found]
        fitting = [one for one in plans if one.total_bytes <= budget_bytes]
        plan = (fitting or plans)[0]
        room = min(room - 1, int(room * budget_bytes / plan.total_bytes))
    return plan


def _packed(flow: Dataflow, order: Sequence[int]) -> MemoryPlan:
    life = lifetimes(flow, order)
    plan = MemoryPlan("workbench", life, pack(life.items, rounds=ROUNDS)[life.places])
    certify(plan)
    return plan


def _budgets(flow: Dataflow, order: Sequence[int]) -> set[int]:
    most = _packed(flow, order).total_bytes
    least = least_reachable(flow, order)
    shares = np.geomspace(1, least / most, POINTS) if least else [1.0]
    return {int(np.ceil(most * share)) for share in shares}


def _described(flow: Dataflow, plan: MemoryPlan) -> tuple[Any, ...]:
    return (
        plan.total_bytes,
        plan.bound_bytes,
        extra_work(flow, plan),
        sum(one.flops for one in plan.flow.steps) - sum(one.flops for one in flow.steps),
        len(plan.recomputed),
        None,
    )


def extra_work(flow: Dataflow, plan: MemoryPlan) -> float:
    """What a plan computes again, as a share of the work of a dataflow."""
    once = float(cost(flow).sum())
    return (float(cost(plan.flow).sum()) - once) / once if once else 0.0

"""Less memory for more work: plans within a budget, and what each budget costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import polars as pl

from workbench.graphs.graph import OperatorGraph
from workbench.memory.dataflow import Dataflow, flow_of
from workbench.memory.lifetimes import lifetimes, plain_bytes
from workbench.memory.orders import least_bound
from workbench.memory.packing import pack
from workbench.memory.plan import MemoryPlan, certify
from workbench.memory.recomputation import BudgetError, cost, least_bytes, recomputing
from workbench.utils.checks import listed, parse_budget
from workbench.utils.numbers import bytes_as_text

TRIES = 6
"""Rooms that a plan within a budget is looked for in, at most."""
PATIENCE = 3
"""Tries without a fitting plan after which the search ends, once the rounds are over."""
_LESS = 0.97
"""Size of the next try's room as a share of this one's."""

POINTS = 12
"""Budgets of a curve, if none are given."""
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
    budgets: Iterable[str | int] | None = None,
) -> pl.DataFrame:
    """What each budget costs, a row each, in descending order; the same at every call.

    ``extra_work`` is what runs again as a share of all work, in FLOPs plus bytes read and made,
    and so about a share of seconds; ``extra_flops`` its FLOPs; ``recomputed`` counts operators.
    ``total_bytes`` and ``bound_bytes`` are the plan's. Where there is no plan, these are null, and
    ``reason`` says why. Budgets are as for `plan_memory`; by default they go from what is needed
    without computing again, in even ratios, down to the least that was reached.

    Raises ValueError: a budget that is neither bytes, nor a size, nor a share.
    """
    flow = flow_of(graph)
    order = least_bound(flow)
    once = _packed(flow, order)
    if budgets is None:
        chosen = _budgets(flow, order, once.total_bytes)
    else:
        asked = listed("budgets", budgets, "give bytes, such as (64_000_000, 32_000_000)")
        chosen = {parse_budget(budget, partial(plain_bytes, flow)) for budget in asked}
    rows: list[tuple[Any, ...]] = []
    best: MemoryPlan | None = None
    for budget in sorted(chosen):  # what fits a smaller budget fits a larger one
        try:
            plan = once
            if once.total_bytes > budget:
                plan = within(flow, order, budget, _packed, rounds=1, patience=TRIES)
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
    """Smallest budget, to 2 %, for the bytes alive at once that recomputation is found within."""
    order = least_bound(flow) if order is None else order

    def fits(room: int) -> bool:
        try:
            recomputing(flow, order, room)
        except BudgetError:
            return False
        return True

    return least_reached(flow, lifetimes(flow, order).bound_bytes, fits)


def least_reached(flow: Dataflow, most_bytes: int, fits: Callable[[int], bool]) -> int:
    """Smallest room, to 2 %, for which ``fits(room)`` holds, by bisection; at most `most_bytes`."""
    below = least_bytes(flow) - 1
    while most_bytes - below > max(1, CLOSE * most_bytes):
        middle = (most_bytes + below) // 2
        if fits(middle):
            most_bytes = middle
        else:
            below = middle
    return most_bytes


class Placed(Protocol):
    """A dataflow that computes again, and the bytes of its results."""

    @property
    def flow(self) -> Dataflow:
        """Steps as they run."""

    @property
    def total_bytes(self) -> int:
        """What it needs."""


P = TypeVar("P", bound=Placed)


def within(
    flow: Dataflow,
    order: Sequence[int],
    budget_bytes: int,
    place: Callable[[Dataflow], P | None],
    *,
    rounds: int,
    patience: int = PATIENCE,
) -> P:
    """The plan of least work found that computes again what does not fit.

    `place` plans a dataflow whose steps run as they stand, if it may run. It is tried with less
    room, too: packing leaves gaps, and less work may be found in less memory. The search is over
    after some `rounds`, though with no plan yet only after `patience` tries. Raises `BudgetError`.
    """
    room = budget_bytes
    best: P | None = None
    least: int | None = None
    for tried in range(TRIES):
        if tried >= rounds and (best or tried >= patience):
            break
        try:
            plan = place(recomputing(flow, order, room))
        except BudgetError:
            if not tried:  # with less room there is even less to find
                raise
            break
        room = int(_LESS * room)
        if plan is None:
            continue
        if plan.total_bytes > budget_bytes:
            least = min(plan.total_bytes, least or plan.total_bytes)
            room = min(room, int(room * budget_bytes / plan.total_bytes))
        elif best is None or cost(plan.flow).sum() < cost(best.flow).sum():
            best = plan
    if best is None:
        text = f"no plan within {bytes_as_text(budget_bytes)} was found"
        if least is not None:
            text += f"; one of {bytes_as_text(least, up=True)} was"
        raise BudgetError(text, least)
    return best


def _packed(flow: Dataflow, order: Sequence[int] | None = None) -> MemoryPlan:
    life = lifetimes(flow, range(len(flow.steps)) if order is None else order)
    return certify(MemoryPlan("workbench", life, pack(life.items)[life.places]))


def _budgets(flow: Dataflow, order: Sequence[int], most: int) -> set[int]:
    least = least_reachable(flow, order)
    shares = np.geomspace(1, least / most, POINTS) if least else [1.0]
    return {int(np.ceil(most * share)) for share in shares}


def _described(flow: Dataflow, plan: MemoryPlan) -> tuple[Any, ...]:
    return (
        plan.total_bytes,
        plan.bound_bytes,
        extra_work(flow, plan),
        sum(step.flops for step in plan.flow.steps) - sum(step.flops for step in flow.steps),
        len(plan.recomputed),
        None,
    )


def extra_work(flow: Dataflow, plan: MemoryPlan) -> float:
    """What a plan computes again, as a share of the work of a dataflow."""
    once = float(cost(flow).sum())
    return (float(cost(plan.flow).sum()) - once) / once if once else 0.0

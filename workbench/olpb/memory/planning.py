"""Plans the memory of a graph: an order of its operators, and a place for each result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.checks import check_kind, check_number, check_whole, listed
from workbench.errors import UserError
from workbench.graphs.operator_graph import OperatorGraph
from workbench.names import choose
from workbench.olpb.memory.checkpointing import checkpointed
from workbench.olpb.memory.dataflow import ALIGNMENT, Dataflow, check_order, dataflow
from workbench.olpb.memory.lifetimes import Lifetimes, lifetimes
from workbench.olpb.memory.orders import ORDERS, best_first, depth_first, searched, traced
from workbench.olpb.memory.packing import pack
from workbench.olpb.memory.pebble import pebble
from workbench.olpb.memory.plan import MemoryPlan, certify
from workbench.olpb.memory.recomputation import BudgetError, cost, recomputing

Place = Callable[[Lifetimes, float], NDArray[np.int64]]


class Planner(NamedTuple):
    """How buffers get offsets, given lifetimes and seconds; and the order that it is used with."""

    place: Place
    order: str = "depth_first"
    overwriting: bool = True


def _packed(packer: str) -> Place:
    def place(life: Lifetimes, time_limit_s: float) -> NDArray[np.int64]:
        offsets = pack(life.items, packer, time_limit_s=time_limit_s)
        return offsets[life.places]

    return place


PLANNERS: Mapping[str, Planner] = {
    "none": Planner(_packed("none"), overwriting=False),
    "parent": Planner(_packed("none")),
    "pebble": Planner(lambda life, _: pebble(life)),
    "greedy_by_size": Planner(_packed("greedy_by_size")),
    "best_fit": Planner(_packed("best_fit")),
    "workbench": Planner(_packed("workbench"), "searched"),
}
"""By name. Of the paper: ``none``, every result in memory of its own; ``parent``, its first
strategy, in which a result takes the place of an operand that it may overwrite (Zhao et al., Sec.
V-B); and ``pebble``. Greedy packings of other systems, and the workbench's own."""


def plan_memory(
    graph: OperatorGraph | Dataflow,
    planner: str = "workbench",
    budget_bytes: int | None = None,
    *,
    order: str | Sequence[int] | None = None,
    time_limit_s: float = 1.0,
    alignment: int = ALIGNMENT,
) -> MemoryPlan:
    """Plan the memory of a graph's results; what it holds of its own is outside of the plan.

    Parameters
    ----------
    graph
        Of `workbench.graphs.trace`.
    planner
        A name in `PLANNERS`.
    budget_bytes
        Most that the plan may need. What does not fit is thrown away and computed again, as little
        as the best of two ways needs: by buffers (`workbench.olpb.memory.recomputation`), or by
        stages, which is optimal on chains (`workbench.olpb.memory.checkpointing`).
    order
        A name in `ORDERS`, or steps by number; the planner's own by default.
    time_limit_s
        That orders and packing are improved for. A first answer is there sooner, and the search
        ends when the bound is met.
    alignment
        Bytes that offsets are a multiple of.

    Raises
    ------
    ValueError
        Unknown planner or order, an order that does not fit the graph, or a budget that is too
        small: the message names what is needed.
    """
    chosen = choose("planner", planner, PLANNERS)
    if check_number("time_limit_s", time_limit_s) <= 0:
        raise UserError(f"time_limit_s is {time_limit_s:g}; give seconds above 0")
    flow = flow_of(graph, alignment)
    until_s = time.monotonic() + time_limit_s
    ordered = _ordered(flow, chosen.order if order is None else order, until_s)
    left_s = max(until_s - time.monotonic(), time_limit_s / 2)
    plan = _placed(planner, flow, ordered, left_s)
    if budget_bytes is None or plan.total_bytes <= check_whole("budget_bytes", budget_bytes, 0):
        return plan
    return _within(planner, flow, ordered, budget_bytes, left_s)


def flow_of(graph: OperatorGraph | Dataflow, alignment: int) -> Dataflow:
    """Dataflow of a graph, if it is none; refuses what is neither, and wrong alignments."""
    unit = check_whole("alignment", alignment, 1)
    if isinstance(graph, Dataflow):
        return graph
    return dataflow(check_kind("graph", graph, OperatorGraph, "one that was traced"), unit)


def _placed(planner: str, flow: Dataflow, order: Sequence[int], time_limit_s: float) -> MemoryPlan:
    """A certified plan of an order."""
    chosen = PLANNERS[planner]
    life = lifetimes(flow, order, overwriting=chosen.overwriting)
    plan = MemoryPlan(planner, life, chosen.place(life, time_limit_s))
    certify(plan)
    return plan


def _within(
    planner: str, flow: Dataflow, order: Sequence[int], budget_bytes: int, time_limit_s: float
) -> MemoryPlan:
    """The plan of least work found that computes again what does not fit.

    With less room, too: packing leaves gaps, and a way may find less work in less memory.
    """
    until_s, room = time.monotonic() + time_limit_s, budget_bytes
    best: MemoryPlan | None = None
    least: int | None = None
    refused = BudgetError(f"no plan within {budget_bytes:,} bytes was found")
    for tried in range(_TRIES):
        if time.monotonic() > until_s and (best or tried >= _LEAST_TRIES):
            break
        try:
            found = less(flow, order, room)
        except BudgetError as error:
            refused, found = error if not tried else refused, []
        room = int(_LESS * room)
        for again in found:
            plan = _placed(planner, again, range(len(again.steps)), time_limit_s / _TRIES)
            if plan.total_bytes > budget_bytes:
                least = min(plan.total_bytes, least or plan.total_bytes)
                room = min(room, int(room * budget_bytes / plan.total_bytes))
            elif best is None or cost(plan.flow).sum() < cost(best.flow).sum():
                best = plan
    if best is None:
        raise BudgetError(f"{refused}; one of {least:,} was") if least else refused
    return best


def less(flow: Dataflow, order: Sequence[int], budget_bytes: int) -> list[Dataflow]:
    """Dataflows whose buffers alive at once fit a budget, the one of least work first.

    Raises `BudgetError`: no way finds one.
    """
    found: list[Dataflow] = []
    refused: list[BudgetError] = []
    for way in (recomputing, checkpointed):
        try:
            found.append(way(flow, order, budget_bytes))
        except BudgetError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return sorted(found, key=lambda one: cost(one).sum())


_TRIES, _LEAST_TRIES = 6, 3
_LESS = 0.97


def _ordered(flow: Dataflow, order: str | Sequence[int], until_s: float) -> Sequence[int]:
    if not isinstance(order, str):
        steps = listed("order", order, "give a name, or steps by number")
        order = [check_whole("a step of the order", step, 0) for step in steps]
        check_order(flow, order)
        return order
    choose("order", order, ORDERS)
    if order != "searched":
        return ORDERS[order](flow)
    quick = quick_order(flow)
    half_s = (until_s - time.monotonic()) / 2
    found = searched(flow, until_s=time.monotonic() + half_s)
    return min([quick, found], key=lambda one: lifetimes(flow, one).bound_bytes)


def quick_order(flow: Dataflow) -> Sequence[int]:
    """The best of the orders that are found at once."""
    quick = [traced(flow), depth_first(flow), best_first(flow)]
    return min(quick, key=lambda one: lifetimes(flow, one).bound_bytes)

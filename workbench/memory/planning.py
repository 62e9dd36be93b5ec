"""Plans the memory of a graph: an order of its operators, and a place for each result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.memory.dataflow import ALIGNMENT, Dataflow, check_order, flow_of
from workbench.memory.lifetimes import Lifetimes, lifetimes, plain_bytes
from workbench.memory.orders import ORDERS
from workbench.memory.packing import ROUNDS, pack
from workbench.memory.pebble import pebble
from workbench.memory.plan import MemoryPlan, certify
from workbench.memory.recomputation import BudgetError, least_bytes, least_room, within
from workbench.profiles.graph import OperatorGraph
from workbench.utils.checks import check_whole, choose, listed, parse_budget
from workbench.utils.numbers import bytes_as_text

Place = Callable[[Lifetimes, int], NDArray[np.int64]]


class Planner(NamedTuple):
    """A function of lifetimes and rounds to offsets, and the order that it is used with."""

    place: Place
    order: str = "depth_first"
    overwriting: bool = True


def _packed(packer: str) -> Place:
    def place(life: Lifetimes, rounds: int) -> NDArray[np.int64]:
        return pack(life.items, packer, rounds=rounds)[life.places]

    return place


PLANNERS: Mapping[str, Planner] = {
    "none": Planner(_packed("none"), overwriting=False),
    "parent": Planner(_packed("none")),
    "pebble": Planner(lambda life, _: pebble(life)),
    "greedy_by_size": Planner(_packed("greedy_by_size")),
    "best_fit": Planner(_packed("best_fit")),
    "workbench": Planner(_packed("workbench"), "least_bound"),
}
"""By name. Of the paper: ``none``, every result in memory of its own; ``parent``, its first
strategy, in which a result takes the place of an operand that it may overwrite (Zhao et al., Sec.
V-B); and ``pebble``. Greedy packings of other systems, and the workbench's own."""


def plan_memory(
    graph: OperatorGraph | Dataflow,
    planner: str = "workbench",
    budget: str | int | None = None,
    *,
    order: str | Sequence[int] | None = None,
    rounds: int = ROUNDS,
    alignment: int = ALIGNMENT,
) -> MemoryPlan:
    """Plan the memory of a graph's results; weights and inputs are outside of the plan.

    Parameters
    ----------
    graph
        Of `workbench.memory.trace`.
    planner
        A name in `PLANNERS`.
    budget
        Most that the block of results may need: bytes, a size as ``"64MB"``, or ``"50%"`` of the
        results that are alive at once as traced, nothing overwritten. Of a process's budget, what
        lies beside the block (`workbench.memory.needs`) goes off. What does not fit is thrown away
        and computed again (`workbench.memory.recomputation`).
    order
        A name in `ORDERS`, or steps by number; the planner's own by default.
    rounds
        Of the search for a packing, and of the search within a budget; both end before if the
        bound is met. The plan is the same on every machine.
    alignment
        Bytes that offsets are a multiple of.

    Raises ValueError: among others a `BudgetError`, which names what is needed.
    """
    chosen = choose("planner", planner, PLANNERS)
    check_whole("rounds", rounds, 0)
    flow = flow_of(graph, alignment)
    budget_bytes = None if budget is None else parse_budget(budget, partial(plain_bytes, flow))
    if budget_bytes is not None and budget_bytes < (least := least_bytes(flow)):
        raise BudgetError(
            f"no plan within {bytes_as_text(budget_bytes)} is possible; a single step needs "
            f"{bytes_as_text(least, up=True)}"
        )
    if order is None or isinstance(order, str):
        ordered = choose("order", order or chosen.order, ORDERS)(flow)
    else:
        steps = listed("order", order, "give a name, or steps by number")
        ordered = [check_whole("a step of the order", step, 0) for step in steps]
        check_order(flow, ordered)

    def plan_of(flow: Dataflow, order: Sequence[int]) -> MemoryPlan:
        life = lifetimes(flow, order, overwriting=chosen.overwriting)
        return certify(MemoryPlan(planner, life, chosen.place(life, rounds)))

    def again(flow: Dataflow) -> tuple[int, MemoryPlan]:
        plan = plan_of(flow, range(len(flow.steps)))
        return plan.total_bytes, plan

    plan = plan_of(flow, ordered)
    if budget_bytes is None or plan.total_bytes <= budget_bytes:
        return plan
    return within(flow, [ordered], budget_bytes, again, rounds)


def least_budget(plan: MemoryPlan, said: Callable[[int], int] = int) -> int:
    """The smallest budget, to 2 %, that `plan_memory` meets by the planner and order of a plan.

    `said` rounds a budget up to what a message says; that one is met. The plan recomputes nothing.
    """

    def is_met(budget_bytes: int) -> bool:
        try:
            plan_memory(plan.flow, plan.planner, said(budget_bytes), order=plan.order, rounds=0)
        except BudgetError:
            return False
        return True

    return said(least_room(plan.flow, plan.total_bytes, is_met))

"""The memory of a model as a table: every planner beside the bound, and what a budget costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.graphs.inputs import InputShape
from workbench.memory.budgets import least_reachable, reachable
from workbench.memory.checkpointing import least_staged
from workbench.memory.dataflow import Dataflow, dataflow
from workbench.memory.lifetimes import plain_bytes
from workbench.memory.plan import MemoryPlan
from workbench.memory.planning import PLANNERS, plan_memory
from workbench.memory.process import OPTIMIZERS, Needs, beside_bytes, needs
from workbench.memory.recomputation import BudgetError, least_bytes
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.utils.checks import check_name, parse_budget

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Survey:
    """Plans of one dataflow, by planner, and what PyTorch would hold without any."""

    flow: Dataflow
    plans: dict[str, MemoryPlan]
    plain_bytes: int  # most alive at once as the module runs, each result until its last use
    budget_bytes: int | None = None
    budgeted: MemoryPlan | None = None  # with which the whole process is within the budget
    optimizer: str = "sgd"
    whole_bytes: int = 0  # of the process without a plan; a budget in percent is a share of them

    @property
    def needs(self) -> Needs:
        """What a process needs: within the budget, else by the last planner's plan."""
        return needs(self.budgeted or [*self.plans.values()][-1], self.optimizer)

    @property
    def bound_bytes(self) -> int:
        """Most bytes alive at once in the order of the last planner: the workbench's, if all."""
        return [*self.plans.values()][-1].bound_bytes


def survey(
    model: str | torch.nn.Module,
    input_shape: InputShape | None = None,
    *,
    batch_size: int = 1,
    training: bool = False,
    planner: str | None = None,
    budget: str | int | None = None,
    optimizer: str = "sgd",
    time_limit_s: float | None = None,
) -> Survey:
    """Plan the memory of a model, by one planner or by all.

    A budget is of the whole process (see `Needs`), as for `plan_memory`; a share is of what it
    takes with nothing overwritten. What is stored of the zoo is not traced. Raises ValueError: a
    model that cannot be traced, an unknown planner or optimizer, or a budget that cannot be met;
    the message says what can.
    """
    check_name("optimizer", optimizer, OPTIMIZERS)
    names = list(PLANNERS) if planner is None else [check_name("planner", planner, PLANNERS)]
    plain, flow = _flows(model, input_shape, batch_size, training)
    plain_size = plain_bytes(plain)
    beside = beside_bytes(flow, optimizer)
    whole = plain_size + beside_bytes(plain, optimizer)
    budget_bytes = None if budget is None else parse_budget(budget, lambda: whole)
    if budget_bytes is not None and budget_bytes < (needed := least_bytes(flow) + beside):
        raise BudgetError(
            f"no plan within {_mb(budget_bytes)} is possible: a single operator, with what it "
            f"reads and makes, and what lies beside results, {_mb(beside)}, need "
            f"{_mb(_whole(needed))}"
        )
    plans = {name: plan_memory(flow, name, time_limit_s=time_limit_s) for name in names}
    budgeted = None
    if budget_bytes is not None:
        budgeted = _within(plans[names[-1]], budget_bytes, beside, time_limit_s)
    return Survey(flow, plans, plain_size, budget_bytes, budgeted, optimizer, whole)


def _flows(
    model: str | torch.nn.Module, input_shape: Any, batch_size: int, training: bool
) -> tuple[Dataflow, Dataflow]:
    """As traced, and optimised."""
    if isinstance(model, str) and input_shape is None:
        as_traced = stored_dataflow(model, batch_size, training, optimised=False)
        return as_traced, stored_dataflow(model, batch_size, training)

    from workbench.graphs import trace
    from workbench.graphs.optimiser import optimise

    graph = trace(model, input_shape, batch_size, training)
    return dataflow(graph), dataflow(optimise(graph).graph)


def _within(
    plan: MemoryPlan, budget_bytes: int, beside: int, time_limit_s: float | None
) -> MemoryPlan:
    """A plan of the same order that leaves, of a budget, what lies beside its block."""
    flow, order = plan.flow, plan.order

    def within(room: int) -> MemoryPlan:
        return plan_memory(flow, plan.planner, room, order=order, time_limit_s=time_limit_s)

    def named(room: int) -> int:
        return _whole(room + beside) - beside

    try:
        return within(budget_bytes - beside)
    except BudgetError as error:
        least = error.found_bytes
    least = least or least_staged(flow, order) or least_reachable(flow, order)
    without = named(plan.total_bytes)
    room = reachable(within, least, without, named)
    again = ""
    if room is not None:
        again = f"computing again reaches {_mb(room + beside)}, and without it "
    needed = f"{again}{_mb(without + beside)} are needed"
    raise BudgetError(f"no plan within {_mb(budget_bytes)} was found; {needed}")


def _whole(size_bytes: int) -> int:
    """Rounded up to what `_mb` tells."""
    return size_bytes if size_bytes < 10_000 else math.ceil(size_bytes / 1000) * 1000


def table(survey: Survey, title: str) -> Any:
    """A table of rich: a row for each planner; below, what lies beside, and the budget."""
    rows = _table(title, ["planner", "order"], ["MB", "over the bound", "of plain execution"])
    for name, plan in survey.plans.items():
        share = plan.total_bytes / survey.plain_bytes if survey.plain_bytes else 1.0
        over = plan.total_bytes / survey.bound_bytes if survey.bound_bytes else 1.0
        cells = (f"{plan.total_bytes / 1e6:,.3f}", f"{over:.3f}", f"{share:.1%}")
        rows.add_row(name, PLANNERS[name].order, *cells)
    lines = [
        f"bound: {_mb(survey.bound_bytes)}, the most alive at once in the last row's order",
        f"plain execution: {_mb(survey.plain_bytes)}, nothing overwritten",
    ]
    if survey.budgeted is not None and survey.budget_bytes is not None:
        lines.append(price(survey))
    accounts = ", ".join(f"{name} {_mb(size_bytes)}" for name, size_bytes in _accounts(survey))
    rows.caption = "\n".join([*lines, f"the process: {accounts}", "1 MB = 10⁶ bytes"])
    return rows


def by_batch(
    survey: Callable[..., Survey], sizes: Sequence[int], title: str, budget: str | None
) -> Any:
    """A table of rich: a row for each batch size, ``survey(batch_size=…)`` of each.

    Where no plan within the budget is found, the row says so.
    """
    rows = _table(title, [], ["samples", "plain\nMB", "results\nMB", "process\nMB"])
    if budget is not None:
        rows.add_column("within the budget")
    for size in sizes:
        try:
            found, said = survey(batch_size=size, budget=budget), ""
        except BudgetError as error:
            found, said = survey(batch_size=size, budget=None), f"no: {error}"
        best = [*found.plans.values()][-1]
        whole = needs(best, found.optimizer).total
        cells = [f"{each / 1e6:,.3f}" for each in (found.plain_bytes, best.total_bytes, whole)]
        if found.budgeted is not None:
            said = price(found)
        rows.add_row(f"{size:,}", *cells, *([said] if budget is not None else []))
    rows.caption = (
        "plain: results, nothing overwritten; results: by the workbench's plan, or the chosen "
        "one; process: all that training or inference needs by it\n1 MB = 10⁶ bytes"
    )
    return rows


def _table(title: str, texts: Sequence[str], numbers: Sequence[str]) -> Any:
    from rich import box
    from rich.table import Table

    rows = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", caption_justify="left")
    for name in (*texts, *numbers):
        rows.add_column(name, justify="right" if name in numbers else "left", no_wrap=True)
    return rows


def _accounts(survey: Survey) -> list[tuple[str, int]]:
    """What a process needs its bytes for, in words."""
    needs = survey.needs
    trains = any(step.phase == "update" for step in survey.flow.steps)
    parameters = "parameters and their trained copy" if trains else "parameters"
    named = [
        ("block", needs.block),
        ("kernels beside it, on one thread, at most", needs.kernels),
        (parameters, needs.parameters),
        (f"{survey.optimizer}'s state", needs.state),
        ("inputs twice", needs.inputs),
        ("constants", needs.other),
        ("weights before folding", needs.folded),
    ]
    return [(name, size_bytes) for name, size_bytes in named if size_bytes]


def total(survey: Survey) -> str:
    """What a process needs, in a line; rounded up, so that what is given this much fits."""
    return f"needs {math.ceil(survey.needs.total / 1000) / 1000:,.3f} MB"


def price(survey: Survey) -> str:
    """What the budget costs, in a line: seconds by this machine's roofline."""
    from workbench.memory.roofline import this_machine

    plan = survey.budgeted
    assert plan is not None
    assert survey.budget_bytes is not None
    budget = f"within {_mb(survey.budget_bytes)} of {_mb(survey.whole_bytes)}"
    if not plan.recomputed:
        return f"{budget}: nothing computed again"
    roofline = this_machine()
    more = roofline.seconds(plan.flow) / roofline.seconds(survey.flow) - 1
    longer = f"{more:.1%}" if more >= 0.001 else "less than 0.1%"
    again = len(plan.recomputed)
    operators = "1 operator runs" if again == 1 else f"{again:,} operators run"
    return f"{budget}: {longer} longer by this machine's roofline; {operators} again"


def _mb(size_bytes: int) -> str:
    if size_bytes >= 10_000:
        return f"{size_bytes / 1e6:,.3f} MB"
    return f"{size_bytes:,} byte{'' if size_bytes == 1 else 's'}"

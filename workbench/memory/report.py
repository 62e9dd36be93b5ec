"""The memory of a model as a table: every planner beside the bound, and the price of a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from workbench.memory.dataflow import Dataflow, dataflow
from workbench.memory.lifetimes import plain_bytes
from workbench.memory.plan import MemoryPlan
from workbench.memory.planning import PLANNERS, least_budget, plan_memory
from workbench.memory.process import OPTIMIZERS, Needs, beside_bytes, needs
from workbench.memory.recomputation import BudgetError
from workbench.profiles.inputs import InputShape
from workbench.utils import terminal
from workbench.utils.checks import check_name, parse_budget, parse_bytes
from workbench.utils.numbers import bytes_as_text, counted, percent, three_digits

if TYPE_CHECKING:
    import torch
    from rich.table import Table

ROOFLINE_ERROR = 0.21
"""Most by which recorded steps took longer than a roofline said, as a share of a step."""


@dataclass(frozen=True)
class Survey:
    """Plans of one dataflow, by planner, and the process that runs one of them."""

    flow: Dataflow
    plans: dict[str, MemoryPlan]
    planner: str  # whose plan the needs and the bound are of
    optimizer: str
    workspace_bytes: int  # most that an operator allocates on this machine
    plain_bytes: int  # most alive at once as the module runs, each result until its last use
    whole_bytes: int  # of the process without a plan; a budget in percent is a share of them
    budget_bytes: int | None = None
    budgeted: MemoryPlan | None = None  # with which the whole process is within the budget
    refusal: str = ""  # of the budget, with the least that is met

    @property
    def needs(self) -> Needs:
        """Needs of the process: within the budget, else by the plan of `planner`."""
        return needs(self.budgeted or self.plan, self.optimizer, self.workspace_bytes)

    @property
    def plan(self) -> MemoryPlan:
        """The plan of `planner`, without a budget."""
        return self.plans[self.planner]

    @property
    def bound_bytes(self) -> int:
        """Most bytes alive at once in the order of the plan."""
        return self.plan.bound_bytes


def survey(
    model: str | torch.nn.Module,
    input_shape: InputShape | None = None,
    *,
    batch_size: int = 1,
    training: bool = False,
    planner: str | None = None,
    budget: str | int | None = None,
    optimizer: str = "sgd",
) -> Survey:
    """Plan the memory of a model, by one planner or by all.

    A budget is of the whole process (see `Needs`), as for `plan_memory`; a share is of what it
    takes with nothing overwritten. Where it is not met, `Survey.refusal` names budgets that are.
    The model is traced, and each kind of operator run once, alone. Raises ValueError: a model that
    cannot be traced, an unknown planner or optimizer, or a budget that cannot be read.
    """
    from workbench.memory.fitting.profile import workspace_bytes
    from workbench.memory.optimiser import optimise
    from workbench.memory.tracing import trace

    check_name("optimizer", optimizer, OPTIMIZERS)
    names = list(PLANNERS) if planner is None else [check_name("planner", planner, PLANNERS)]
    graph = trace(model, input_shape, batch_size, training)
    optimised = optimise(graph).graph
    plain, flow, workspace = dataflow(graph), dataflow(optimised), workspace_bytes(optimised)
    results_bytes = plain_bytes(plain)
    found = Survey(
        flow=flow,
        plans={name: plan_memory(flow, name) for name in names},
        planner=planner or "workbench",
        optimizer=optimizer,
        workspace_bytes=workspace,
        plain_bytes=results_bytes,
        whole_bytes=results_bytes + beside_bytes(plain, optimizer, workspace),
    )
    if budget is None:
        return found
    budget_bytes = parse_budget(budget, lambda: found.whole_bytes)
    found = replace(found, budget_bytes=budget_bytes)
    plan, beside = found.plan, beside_bytes(flow, optimizer, workspace)
    try:
        room = max(0, budget_bytes - beside)
        return replace(found, budgeted=plan_memory(flow, plan.planner, room, order=plan.order))
    except BudgetError:
        least, text = least_budget(plan, partial(_said, beside)), _up(plan.total_bytes + beside)
    if least < plan.total_bytes:
        text = f"{_up(least + beside)} with recomputation, {text} without"
    return replace(
        found, refusal=f"a budget of {bytes_as_text(budget_bytes)} cannot be met: at least {text}"
    )


def _said(beside: int, room: int) -> int:
    """A room for results such that the whole process is as large as a message says."""
    return parse_bytes(_up(room + beside)) - beside


def _up(size_bytes: int) -> str:
    return bytes_as_text(size_bytes, up=True)


def table(survey: Survey, title: str) -> Table:
    """A row for each planner; below, the whole process, and the budget."""
    rows = terminal.table(
        title, texts=["planner", "order"], numbers=["MB", "over the bound", "of plain execution"]
    )
    for name, plan in survey.plans.items():
        share = plan.total_bytes / survey.plain_bytes if survey.plain_bytes else 1.0
        over = plan.total_bytes / survey.bound_bytes if survey.bound_bytes else 1.0
        cells = (three_digits(plan.total_bytes / 1e6), f"{over:.2f}", f"{percent(share, 1)}")
        rows.add_row(name, PLANNERS[name].order, *cells)
    needs = survey.needs
    trains = any(step.phase == "update" for step in survey.flow.steps)
    parts = {
        "block": needs.block,
        "workspace": needs.workspace,
        "parameters and their trained copy" if trains else "parameters": needs.parameters,
        f"optimizer state ({survey.optimizer})": needs.optimizer_state,
        "inputs twice": needs.inputs,
        "constants": needs.constants,
        "weights before folding": needs.folded,
    }
    process = ", ".join(f"{part} {bytes_as_text(size)}" for part, size in parts.items() if size)
    lines = [
        f"bound: {bytes_as_text(survey.bound_bytes)}, most alive at once in the order of "
        f"{survey.planner}",
        f"plain execution: {bytes_as_text(survey.plain_bytes)}, nothing overwritten",
        *([price(survey)] if survey.budgeted else []),
        f"the process: {process}",
        "beside these: imported libraries, and what the C library keeps to use again",
        "1 MB = 10⁶ bytes",
    ]
    rows.caption = "\n".join(lines)
    return rows


def by_batch(
    survey: Callable[..., Survey], sizes: Sequence[int], title: str, budget: str | None
) -> Table:
    """A row for each batch size, ``survey(batch_size=…)`` of each.

    Where no plan within the budget is found, the row says so.
    """
    rows = terminal.table(title, numbers=["samples", "plain\nMB", "results\nMB", "process\nMB"])
    if budget is not None:
        rows.add_column("within the budget")
    for size in sizes:
        found = survey(batch_size=size, budget=budget)
        whole = needs(found.plan, found.optimizer, found.workspace_bytes).total
        sizes_bytes = (found.plain_bytes, found.plan.total_bytes, whole)
        cells = [three_digits(size_bytes / 1e6) for size_bytes in sizes_bytes]
        if budget is not None:
            cells.append(found.refusal or price(found))
        rows.add_row(f"{size:,}", *cells)
    rows.caption = (
        "plain: results, nothing overwritten; results: by the workbench's plan, or the chosen "
        "one; process: all that training or inference needs by it\n1 MB = 10⁶ bytes"
    )
    return rows


def total(survey: Survey) -> str:
    """Needs of the process in a line, rounded up, so that a machine with this much has enough."""
    return f"needs {_up(survey.needs.total)}"


def price(survey: Survey) -> str:
    """Time that the budget costs, in a line: by the roofline, up to its largest error."""
    from workbench.memory.roofline import this_machine

    plan = survey.budgeted
    assert plan is not None
    assert survey.budget_bytes is not None
    budget = f"within {bytes_as_text(survey.budget_bytes)} of {bytes_as_text(survey.whole_bytes)}"
    if not plan.recomputed:
        return f"{budget}: nothing recomputed"
    roofline = this_machine()
    more = roofline.seconds(plan.flow) / roofline.seconds(survey.flow) - 1
    return (
        f"{budget}: recomputing {counted(len(plan.recomputed), 'operator')} takes "
        f"{percent(more)} to {percent(more + ROOFLINE_ERROR)} longer "
        "(estimated by this machine's roofline, not timed)"
    )

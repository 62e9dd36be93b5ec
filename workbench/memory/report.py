"""The memory of a model as a table: every planner beside the bound, and what a budget costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from workbench.utils.numbers import bytes_as_text, three_digits

if TYPE_CHECKING:
    import torch
    from rich.table import Table


BESIDE = "beside these: imported libraries, and what the C library keeps to use again"
UNSEEN = 0.21
"""Most by which recorded steps took longer than a roofline said, as a share of a step."""


@dataclass(frozen=True)
class Survey:
    """Plans of one dataflow, by planner, and what PyTorch would hold without any."""

    flow: Dataflow
    plans: dict[str, MemoryPlan]
    planner: str  # whose plan the needs and the bound are of
    plain_bytes: int  # most alive at once as the module runs, each result until its last use
    budget_bytes: int | None = None
    budgeted: MemoryPlan | None = None  # with which the whole process is within the budget
    refusal: str = ""  # why there is none, and the least that can be met
    optimizer: str = "sgd"
    workspace_bytes: int = 0  # most that an operator allocates on this machine
    whole_bytes: int = 0  # of the process without a plan; a budget in percent is a share of them

    @property
    def needs(self) -> Needs:
        """What a process needs: within the budget, else by the plan of `planner`."""
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
    takes with nothing overwritten. Where it cannot be met, `Survey.refusal` says what can. The
    model is traced, and each kind of operator run once, alone. Raises ValueError: a model that
    cannot be traced, an unknown planner or optimizer, or a budget that is none.
    """
    from workbench.memory.fitting.profile import workspace_bytes
    from workbench.memory.optimiser import optimise
    from workbench.memory.tracing import trace

    check_name("optimizer", optimizer, OPTIMIZERS)
    names = list(PLANNERS) if planner is None else [check_name("planner", planner, PLANNERS)]
    chosen = planner or "workbench"
    graph = trace(model, input_shape, batch_size, training)
    smaller = optimise(graph).graph
    plain, flow, workspace = dataflow(graph), dataflow(smaller), workspace_bytes(smaller)
    plain_size = plain_bytes(plain)
    beside = beside_bytes(flow, optimizer, workspace)
    whole = plain_size + beside_bytes(plain, optimizer, workspace)
    budget_bytes = None if budget is None else parse_budget(budget, lambda: whole)
    plans = {name: plan_memory(flow, name) for name in names}
    budgeted, refusal = None, ""
    if budget_bytes is not None:
        try:
            budgeted = _budgeted(plans[chosen], budget_bytes, beside)
        except BudgetError as error:
            refusal = str(error)
    return Survey(
        flow,
        plans,
        chosen,
        plain_size,
        budget_bytes,
        budgeted,
        refusal,
        optimizer,
        workspace,
        whole,
    )


def _budgeted(plan: MemoryPlan, budget_bytes: int, beside: int) -> MemoryPlan:
    """A plan of the same order that leaves, of a budget, what lies beside its block.

    A refusal names budgets that are met.
    """
    try:
        room = max(0, budget_bytes - beside)
        return plan_memory(plan.flow, plan.planner, room, order=plan.order)
    except BudgetError:
        pass

    def said(room: int) -> int:
        return parse_bytes(_up(room + beside)) - beside

    least, text = least_budget(plan, said), _up(plan.total_bytes + beside)
    if least < plan.total_bytes:
        text = f"{_up(least + beside)} with recomputation, {text} without"
    raise BudgetError(f"a budget of {bytes_as_text(budget_bytes)} cannot be met: at least {text}")


def _up(size_bytes: int) -> str:
    return bytes_as_text(size_bytes, up=True)


def table(survey: Survey, title: str) -> Table:
    """A row for each planner; below, what lies beside, and the budget."""
    rows = terminal.table(
        title, texts=["planner", "order"], numbers=["MB", "over the bound", "of plain execution"]
    )
    for name, plan in survey.plans.items():
        share = plan.total_bytes / survey.plain_bytes if survey.plain_bytes else 1.0
        over = plan.total_bytes / survey.bound_bytes if survey.bound_bytes else 1.0
        cells = (three_digits(plan.total_bytes / 1e6), f"{over:.2f}", f"{share:.1%}")
        rows.add_row(name, PLANNERS[name].order, *cells)
    lines = [
        f"bound: {bytes_as_text(survey.bound_bytes)}, most alive at once in the order of "
        f"{survey.planner}",
        f"plain execution: {bytes_as_text(survey.plain_bytes)}, nothing overwritten",
    ]
    if survey.budgeted is not None and survey.budget_bytes is not None:
        lines.append(price(survey))
    accounts = ", ".join(
        f"{name} {bytes_as_text(size_bytes)}" for name, size_bytes in _accounts(survey)
    )
    rows.caption = "\n".join([*lines, f"the process: {accounts}", BESIDE, "1 MB = 10⁶ bytes"])
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


def _accounts(survey: Survey) -> list[tuple[str, int]]:
    """What a process needs its bytes for, in words."""
    needs = survey.needs
    trains = any(step.phase == "update" for step in survey.flow.steps)
    parameters = "parameters and their trained copy" if trains else "parameters"
    named = [
        ("block", needs.block),
        ("workspace", needs.workspace),
        (parameters, needs.parameters),
        (f"optimizer state ({survey.optimizer})", needs.optimizer_state),
        ("inputs twice", needs.inputs),
        ("constants", needs.constants),
        ("weights before folding", needs.folded),
    ]
    return [(name, size_bytes) for name, size_bytes in named if size_bytes]


def total(survey: Survey) -> str:
    """What a process needs, in a line; rounded up, so that what is given this much fits."""
    return f"needs {_up(survey.needs.total)}"


def price(survey: Survey) -> str:
    """What the budget costs, in a line: from what a roofline says to what it may leave out."""
    from workbench.memory.roofline import this_machine

    plan = survey.budgeted
    assert plan is not None
    assert survey.budget_bytes is not None
    budget = f"within {bytes_as_text(survey.budget_bytes)} of {bytes_as_text(survey.whole_bytes)}"
    if not plan.recomputed:
        return f"{budget}: nothing recomputed"
    roofline = this_machine()
    more = roofline.seconds(plan.flow) / roofline.seconds(survey.flow) - 1
    again = len(plan.recomputed)
    operators = "1 operator" if again == 1 else f"{again:,} operators"
    return (
        f"{budget}: recomputing {operators} takes {more:.0%} to {more + UNSEEN:.0%} longer "
        "(estimated by this machine's roofline, not timed)"
    )

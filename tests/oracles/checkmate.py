"""The least recomputation within a budget, by an integer programme; minutes above thirty steps.

Jain, Jain, Nrusimha, Gholami, Abbeel, Keutzer, Stoica and Gonzalez 2020, *Checkmate: breaking the
memory wall with optimal tensor rematerialization* (Sec. 4): in stage t step t runs for the first
time, and before it any of those before run again; a result is kept from a stage to the next, or let
go of. A baseline for small graphs, by which faster ways are judged.

Deviation: what must not run again, and what is returned, stays. Results lie in memory of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from workbench.memory.dataflow import Dataflow
from workbench.memory.recomputation import BudgetError, cost, unrolled
from workbench.utils.numbers import bytes_as_text

Row = Mapping[int, float]


class _Programme:
    """Variables by number, each from 0 to its most, and rows ``low <= sum <= high``."""

    def __init__(self) -> None:
        self.low: list[float] = []
        self.high: list[float] = []
        self.is_whole: list[bool] = []
        self.rows: list[tuple[Row, float, float]] = []

    def variable(self, low: float = 0, high: float = 1, *, whole: bool = True) -> int:
        self.low.append(low)
        self.high.append(high)
        self.is_whole.append(whole)
        return len(self.low) - 1

    def require(self, row: Row, low: float = -np.inf, high: float = np.inf) -> None:
        self.rows.append((row, low, high))

    def least(self, objective: Row) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        """Values of the variables at which an objective is least; None if there are none."""
        entries = [
            (at, variable, factor)
            for at, (row, *_) in enumerate(self.rows)
            for variable, factor in row.items()
        ]
        at, variable, factor = (np.array(column) for column in zip(*entries, strict=True))
        shape = (len(self.rows), len(self.low))
        matrix = coo_array((factor, (at, variable)), shape).tocsr()
        lows, highs = ([row[which] for row in self.rows] for which in (1, 2))
        weights = np.zeros(len(self.low))
        weights[list(objective)] = list(objective.values())
        found = milp(
            weights,
            integrality=np.array(self.is_whole, int),
            bounds=Bounds(np.array(self.low), np.array(self.high)),
            constraints=LinearConstraint(matrix, lows, highs),
        )
        return found.x if found.success else None


def checkmate(flow: Dataflow, budget_bytes: int) -> Dataflow:
    """The dataflow with steps that run again, in the traced order, at the least cost of all.

    Raises `BudgetError`: no way is within the budget.
    """
    count = len(flow.steps)
    sizes = [int(flow.sizes[list(step.makes)].sum()) for step in flow.steps]
    unit = max(1, budget_bytes)  # bytes are shares of the budget, so that no sum is large
    share = [size / unit for size in sizes]
    users = [
        sorted({reader for buffer in step.makes for reader in flow.readers[buffer]})
        for step in flow.steps
    ]
    returned = {int(flow.maker[buffer]) for buffer in flow.kept}
    once = {at for at, step in enumerate(flow.steps) if step.is_random or step.after}
    once |= {earlier for step in flow.steps for earlier in step.after}
    programme = _Programme()
    stages = range(count)
    runs = [
        [
            *(programme.variable(high=at not in once) for at in range(stage)),
            programme.variable(low=1),
        ]
        for stage in stages
    ]
    # At the start of a stage; the last row is the end of all.
    keeps = [
        [programme.variable(at in returned or at in once) for at in range(stage)]
        for stage in range(count + 1)
    ]
    for stage in stages:
        run, keep, kept = runs[stage], keeps[stage], keeps[stage + 1]
        for at in range(stage + 1):
            has = {keep[at]: -1.0} if at < stage else {}
            programme.require({kept[at]: 1.0, run[at]: -1.0} | has, high=0)
            for user in users[at]:
                if user <= stage:
                    programme.require({run[user]: 1.0, run[at]: -1.0} | has, high=0)
        before: dict[int, float] = {keep[at]: share[at] for at in range(stage)}
        for at in range(stage + 1):
            room = programme.variable(high=1, whole=False)  # bytes alive while a step runs
            programme.require(before | {run[at]: share[at], room: -1.0}, 0, 0)
            before = {room: 1.0}
            operands = {int(flow.maker[buffer]) for buffer in flow.steps[at].reads} | {at}
            for operand in sorted(operands):
                later = [user for user in users[operand] if at < user <= stage]
                freed = programme.variable()
                hazards = {run[at]: -1.0, kept[operand]: 1.0} | {run[one]: 1.0 for one in later}
                most = len(hazards)
                programme.require(hazards | {freed: 1.0}, low=0)
                programme.require(hazards | {freed: float(most)}, high=most - 1)
                before[freed] = -share[operand]
    step_cost = cost(flow)
    objective = {run[at]: float(step_cost[at]) for run in runs for at in range(len(run))}
    found = programme.least(objective)
    if found is None:
        raise BudgetError(f"no plan within {bytes_as_text(budget_bytes)} is possible")
    ran = [at for run in runs for at, variable in enumerate(run) if found[variable] > 0.5]
    return unrolled(flow, ran)

"""The least recomputation of a chain, by dynamic programming.

Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova 2019, *Optimal checkpointing for heterogeneous
chains*: from a stage on, either the next stage runs and saves all that its backward pass needs; or
stages run without saving, the last one's output is kept, the rest is solved from there, and then
the stages before it, which run again. Of all ways in which a stage's input stays until its backward
pass is done, the one found costs least.

Deviation: a run that saves nothing skips what its output does not need; what must not run again
(random numbers) stays all the time. Bytes are counted in `SLOTS` parts of the budget, rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.olpb.memory.dataflow import Dataflow
from workbench.olpb.memory.recomputation import BudgetError, cost, unrolled
from workbench.olpb.memory.stages import Chain, Stage, chain

SLOTS = 1000
"""That a budget is divided into."""
MOST_STAGES = 100
"""Of the dynamic programme, whose time grows with their cube."""

Run = tuple[Literal["through", "forward", "again", "backward"], int]


def checkpointed(flow: Dataflow, budget_bytes: int) -> Dataflow:
    """The dataflow with stages that run again, in order, within a budget; at least cost.

    Raises `BudgetError`: no such way is within the budget, or the dataflow is no chain.
    """
    found = chain(flow)
    if not 1 < len(found.stages) <= MOST_STAGES:
        raise BudgetError("the dataflow is no chain of stages")
    runs = schedule(found, cost(flow), budget_bytes)
    if runs is None:
        raise BudgetError(f"no plan of stages within {budget_bytes:,} bytes was found")
    return unrolled(flow, list(_steps(found, runs)))


def schedule(found: Chain, step_cost: NDArray[np.float64], budget_bytes: int) -> list[Run] | None:
    """Runs of stages at least cost, in order; None if there is none within the budget."""
    room = budget_bytes - found.pinned_bytes
    if room <= 0:
        return None
    solved = _Programme(found.stages, step_cost, room)
    return solved.runs() if solved.is_solved else None


def _steps(found: Chain, runs: list[Run]) -> Iterator[int]:
    """Steps of runs, without those that have run and must not run again."""
    ran = set[int]()
    for part, number in runs:
        for step in getattr(found.stages[number], part):
            if step not in ran or step not in found.once:
                yield step
            ran.add(step)


class _Best(NamedTuple):
    """By slots: the cost of the forward pass, and how many stages run before a checkpoint."""

    cost: NDArray[np.float64]
    length: NDArray[np.int64]  # 0: the first stage saves


class _Programme:
    """Solves parts of the chain, short ones first: from a stage `s` to `t`, both inclusive.

    The room of a part is that of all but the input of `s`.
    """

    def __init__(self, stages: Sequence[Stage], step_cost: NDArray[np.float64], room: int) -> None:
        unit = max(1, -(-room // SLOTS))

        def slots(sizes: Iterable[int]) -> list[int]:
            return [-(-one // unit) for one in sizes]

        self._most, self._count = room // unit, len(stages)
        self._output = slots(one.output_bytes for one in stages)
        self._saved = slots(one.saved_bytes for one in stages)
        self._gradient = slots(one.gradient_bytes for one in stages)
        self._through_peak = slots(one.through_peak for one in stages)
        self._passing_peak = slots(one.passing_peak for one in stages)
        self._forward_peak = slots(one.forward_peak for one in stages)
        self._again_peak = slots(one.again_peak for one in stages)
        self._backward_peak = slots(one.backward_peak for one in stages)
        self._through_cost = [float(step_cost[list(one.through)].sum()) for one in stages]
        self._forward_cost = [float(step_cost[list(one.forward)].sum()) for one in stages]
        self._again_cost = [float(step_cost[list(one.again)].sum()) for one in stages]
        self._best: dict[tuple[int, int], _Best] = {}
        for span in range(self._count):
            for s in range(self._count - span):
                self._best[s, s + span] = self._solve(s, s + span)

    @property
    def is_solved(self) -> bool:
        """Whether the whole chain fits."""
        return bool(np.isfinite(self._best[0, self._count - 1].cost[-1]))

    def runs(self) -> list[Run]:
        """Runs of the whole chain, in order."""
        return list(self._runs(0, self._count - 1, self._most))

    def _solve(self, s: int, t: int) -> _Best:
        cost = self._saving(s, t)
        length = np.zeros(self._most + 1, np.int64)
        through_cost, peak = 0.0, 0
        for k in range(s + 1, t + 1):  # the first stage behind the checkpoint
            through_cost += self._through_cost[k - 1]
            one = self._through_peak if k - 1 == s else self._passing_peak
            peak = max(peak, one[k - 1])
            kept = self._output[k - 1]
            least = max(self._gradient[t] + peak, kept)
            if least > self._most:
                break
            behind = self._best[k, t].cost[least - kept : self._most + 1 - kept]
            other = through_cost + behind + self._best[s, k - 1].cost[least:]
            better = other < cost[least:]
            cost[least:][better] = other[better]
            length[least:][better] = k - s
        return _Best(cost, length)

    def _saving(self, s: int, t: int) -> NDArray[np.float64]:
        """Cost by slots, if the first stage saves what its backward pass needs."""
        cost = np.full(self._most + 1, np.inf)
        is_again = s == t < self._count - 1  # nobody needs its output any more
        peak = (self._again_peak if is_again else self._forward_peak)[s]
        least = max(self._gradient[t] + peak, self._backward_peak[s])
        if s == t:
            cost[least:] = (self._again_cost if is_again else self._forward_cost)[s]
            return cost
        saved = self._saved[s]
        least = max(least, saved)
        if least <= self._most:
            behind = self._best[s + 1, t].cost[least - saved : self._most + 1 - saved]
            cost[least:] = self._forward_cost[s] + behind
        return cost

    def _runs(self, s: int, t: int, slots: int) -> Iterator[Run]:
        length = int(self._best[s, t].length[slots])
        if length:
            k = s + length
            yield from (("through", one) for one in range(s, k))
            yield from self._runs(k, t, slots - self._output[k - 1])
            yield from self._runs(s, k - 1, slots)
            return
        yield ("again" if s == t < self._count - 1 else "forward"), s
        if s < t:
            yield from self._runs(s + 1, t, slots - self._saved[s])
        yield "backward", s

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.memory.dataflow import Dataflow
from workbench.memory.lifetimes import lifetimes
from workbench.memory.recomputation import BudgetError, cost, unrolled
from workbench.memory.stages import Part, Stage, Stages, stages_of
from workbench.utils.numbers import bytes_as_text

SLOTS = 1000
"""That a budget is divided into."""
MOST_STAGES = 100
"""Of the dynamic programme, whose time grows with their cube."""

Run = tuple[Part, int]
"""Steps of a stage, by the name that they have there."""


def checkpointed(flow: Dataflow, order: Sequence[int], budget_bytes: int) -> Dataflow:
    """The dataflow with stages that run again, in order, within a budget; at least cost.

    Raises `BudgetError`: no such way is within the budget, or the dataflow has no such stages.
    """
    staged = stages_of(flow, order)
    programme = _programme(flow, staged, budget_bytes)
    if programme is None or not programme.is_solved:
        raise BudgetError(f"no plan of stages within {bytes_as_text(budget_bytes)} was found")
    return unrolled(flow, list(_steps(staged, programme.runs())))


def least_staged(flow: Dataflow, order: Sequence[int]) -> int | None:
    """Bytes alive at once in the smallest plan of stages, at once; None if it is not a chain."""
    staged = stages_of(flow, order)
    programme = _programme(flow, staged, lifetimes(flow, order).bound_bytes)
    return None if programme is None else staged.pinned_bytes + programme.least_bytes


def _programme(flow: Dataflow, staged: Stages, budget_bytes: int) -> _Programme | None:
    room = budget_bytes - staged.pinned_bytes
    if not 1 < len(staged.stages) <= MOST_STAGES or room <= 0:
        return None
    return _Programme(staged.stages, cost(flow), room)


def _steps(staged: Stages, runs: list[Run]) -> Iterator[int]:
    """Steps of runs, without those that have run and must not run again."""
    ran = set[int]()
    for part, number in runs:
        for step in staged.stages[number].steps[part]:
            if step not in ran or step not in staged.once:
                yield step
            ran.add(step)


class _Best(NamedTuple):
    """By slots: cost of all runs forward, and how many stages run before a checkpoint is kept."""

    cost: NDArray[np.float64]
    length: NDArray[np.int64]  # 0: the first stage saves


class _Programme:
    """Solves parts of the chain, short ones first: from a stage `s` to `t`, both inclusive.

    The room of a part is that of all but the input of `s`. A part is solved twice: without the
    output of `t`, and with it, kept from before, in the room.
    """

    def __init__(self, stages: Sequence[Stage], step_cost: NDArray[np.float64], room: int) -> None:
        unit = max(1, -(-room // SLOTS))

        def slots(sizes: Iterable[int]) -> list[int]:
            return [-(-size // unit) for size in sizes]

        self._unit, self._most, self._count = unit, room // unit, len(stages)
        self._output = slots(stage.output_bytes for stage in stages)
        self._saved = slots(stage.saved_bytes for stage in stages)
        self._gradient = slots(stage.gradient_bytes for stage in stages)
        self._peak = {
            part: slots(stage.peaks[part] for stage in stages) for part in stages[0].peaks
        }
        self._cost = {
            part: [float(step_cost[list(stage.steps[part])].sum()) for stage in stages]
            for part in stages[0].steps
        }
        self._best: dict[tuple[int, int, bool], _Best] = {}
        for span in range(self._count):
            for s in range(self._count - span):
                for has_output in (False, True):
                    self._best[s, s + span, has_output] = self._solve(s, s + span, has_output)

    @property
    def is_solved(self) -> bool:
        """Whether the whole chain fits."""
        return bool(np.isfinite(self._best[0, self._count - 1, False].cost[-1]))

    @property
    def least_bytes(self) -> int:
        """Of the rooms that the whole chain fits, up to that which was given."""
        fits = np.isfinite(self._best[0, self._count - 1, False].cost)
        return self._unit * int(fits.argmax() if fits.any() else self._most)

    def runs(self) -> list[Run]:
        """Runs of the whole chain, in order."""
        return list(self._runs(0, self._count - 1, False, self._most))

    def _solve(self, s: int, t: int, has_output: bool) -> _Best:
        beside = self._beside(t, has_output)
        cost = self._saving(s, t, has_output)
        length = np.zeros(self._most + 1, np.int64)
        through_cost, peak = 0.0, 0
        for k in range(s + 1, t + 1):  # the first stage behind the checkpoint
            through_cost += self._cost["through"][k - 1]
            peaks = self._peak["through" if k - 1 == s else "passing"]
            peak = max(peak, peaks[k - 1])
            kept = self._output[k - 1]
            least = max(beside + peak, kept)
            if least > self._most:
                break
            behind = self._best[k, t, has_output].cost[least - kept : self._most + 1 - kept]
            before = [self._best[s, k - 1, kept].cost[least:] for kept in (False, True)]
            other = through_cost + behind + np.minimum(*before)
            better = other < cost[least:]
            cost[least:][better] = other[better]
            length[least:][better] = k - s
        return _Best(cost, length)

    def _beside(self, t: int, has_output: bool) -> int:
        """Slots of what is there from behind stage `t`: its gradient, if any, and its output."""
        return self._gradient[t] + (self._output[t] if has_output else 0)

    def _saving(self, s: int, t: int, has_output: bool) -> NDArray[np.float64]:
        """Cost by slots, if the first stage saves what its backward pass needs."""
        cost = np.full(self._most + 1, np.inf)
        run = self._last_run(t, has_output) if s == t else "forward"
        beside = self._beside(t, has_output and s < t)
        least = max(beside + self._peak[run][s], self._peak["backward"][s])
        if s == t:
            cost[least:] = self._cost[run][s]
            return cost
        saved = self._saved[s]
        least = max(least, saved)
        if least <= self._most:
            behind = self._best[s + 1, t, has_output].cost[least - saved : self._most + 1 - saved]
            cost[least:] = self._cost[run][s] + behind
        return cost

    def _last_run(self, t: int, has_output: bool) -> Part:
        """How the last stage of a part runs: what is behind it has no more need of its output."""
        if t == self._count - 1:
            return "forward"
        return "inner" if has_output else "again"

    def _runs(self, s: int, t: int, has_output: bool, slots: int) -> Iterator[Run]:
        length = int(self._best[s, t, has_output].length[slots])
        if length:
            k = s + length
            yield from (("through", stage) for stage in range(s, k))
            yield from self._runs(k, t, has_output, slots - self._output[k - 1])
            without, with_output = (
                self._best[s, k - 1, kept].cost[slots] for kept in (False, True)
            )
            yield from self._runs(s, k - 1, bool(with_output < without), slots)
            return
        yield (self._last_run(t, has_output) if s == t else "forward"), s
        if s < t:
            yield from self._runs(s + 1, t, has_output, slots - self._saved[s])
        yield "backward", s

"""Less memory for more computing: results that do not fit are dropped and computed again.

In the pebble game a pebble is then placed twice (Zhao et al., Sec. V-B, avoid it). Steps run in a
given order. Where a result does not fit, a buffer is dropped that costs little to compute again,
frees many bytes, and is not read for long; when it is read, the steps that make it run again, and
before them those that make their operands. The future is known, so this is dynamic tensor
rematerialisation (Kirisame et al. 2021) with the time until the next use in the place of the time
since the last.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from workbench.memory.dataflow import Dataflow, Step
from workbench.utils.checks import UserError
from workbench.utils.numbers import bytes_as_text

T = TypeVar("T")


class BudgetError(UserError):
    """A budget within which no plan was found; with the bytes of the smallest, if that is known."""

    def __init__(self, message: str, found_bytes: int | None = None) -> None:
        super().__init__(message)
        self.found_bytes = found_bytes


MOST_RUNS = 5
"""Runs of each step, on average, above which a search ends: near the least they grow without end.
"""
WEIGHTS = tuple(product((0.5, 1.0, 2.0), (0.0, 0.5, 1.0)))
"""Exponents of bytes and of the time until the next use, all of which are tried."""
ROOMS = (1.0, 0.97, 0.94, 0.91, 0.8, 0.65, 0.5)
"""Shares of a budget that buffers alive at once are to fit in: packing them leaves gaps, and less
work may be found in less room."""
CLOSE = 0.02
"""How near the least budget is found, as a share."""


def within(
    flow: Dataflow,
    orders: Sequence[Sequence[int]],
    budget_bytes: int,
    plan_of: Callable[[Dataflow], tuple[int, T] | None],
    rounds: int = 1,
) -> T:
    """The plan of least work found within a budget, by recomputation.

    `plan_of` gives the bytes and the plan of a dataflow whose steps run as they stand, or None if
    they must not. In each order, `ROOMS` are tried until a plan fits, and `rounds` of them at
    least. Raises `BudgetError`.
    """
    best: tuple[float, T] | None = None
    smallest: int | None = None
    for order in orders:
        fits = False
        for tried, share in enumerate(ROOMS):
            if fits and tried >= rounds:
                break
            try:
                again = recomputing(flow, order, int(share * budget_bytes))
            except BudgetError:
                break  # in less room there is even less to find
            if (found := plan_of(again)) is None:
                continue
            total_bytes, plan = found
            smallest = min(total_bytes, smallest or total_bytes)
            work = float(cost(again).sum())
            if total_bytes <= budget_bytes:
                fits = True
                best = min(best or (work, plan), (work, plan), key=lambda candidate: candidate[0])
    if best is None:
        least = bytes_as_text(smallest or least_bytes(flow), up=True)
        kind = "the smallest plan" if smallest else "a single step"
        text = f"no plan within {bytes_as_text(budget_bytes)} was found; {kind} needs {least}"
        raise BudgetError(text, smallest)
    return best[1]


def least_room(flow: Dataflow, most_bytes: int, fits: Callable[[int], bool]) -> int:
    """The smallest room, to 2 %, for which ``fits(room)`` holds, by bisection; or `most_bytes`."""
    below = least_bytes(flow) - 1
    while most_bytes - below > max(1, CLOSE * most_bytes):
        middle = (most_bytes + below) // 2
        if fits(middle):
            most_bytes = middle
        else:
            below = middle
    return most_bytes


def recomputing(flow: Dataflow, order: Sequence[int], budget_bytes: int) -> Dataflow:
    """The dataflow with steps that run again, in order, whose buffers alive at once fit a budget.

    Its steps are to be run in their order. Raises `BudgetError`.
    """
    best: _Run | None = None
    for weights in WEIGHTS:
        run = _Run(flow, order, budget_bytes, weights, best.again if best else np.inf)
        with suppress(_StuckError):
            run.finish()
            best = run
    if best is None:
        raise BudgetError(f"no recomputation within {bytes_as_text(budget_bytes)} was found")
    return unrolled(flow, best.ran)


def unrolled(flow: Dataflow, ran: Sequence[int]) -> Dataflow:
    """The dataflow of steps as they run, some again, each making buffers of its own.

    Runs again whose results nobody reads are left out.
    """
    ran = _needed(flow, ran)
    latest: dict[int, int] = {}
    sizes: list[int] = []
    steps: list[Step] = []
    runs: dict[int, list[int]] = {}
    for number, step in enumerate(ran):
        runs.setdefault(step, []).append(number)
        current = flow.steps[step]
        reads = tuple(latest[buffer] for buffer in current.reads)
        over = tuple(latest[buffer] for buffer in current.overwrites)
        for buffer in current.makes:
            latest[buffer] = len(sizes)
            sizes.append(int(flow.sizes[buffer]))
        makes = tuple(latest[buffer] for buffer in current.makes)
        after = tuple(sorted(at for earlier in current.after for at in runs[earlier]))
        steps.append(replace(current, reads=reads, makes=makes, overwrites=over, after=after))
    return replace(
        flow,
        steps=tuple(steps),
        sizes=np.array(sizes, np.int64),
        kept=frozenset(latest[buffer] for buffer in flow.kept),
    )


def _needed(flow: Dataflow, ran: Sequence[int]) -> list[int]:
    """Runs, without repeated ones that make nothing that is read before it is made again."""
    first = {number: at for at, number in reversed([*enumerate(ran)])}
    read = set(flow.kept)
    needed = list[int]()
    for at in reversed(range(len(ran))):
        step = flow.steps[ran[at]]
        if first[ran[at]] == at or read.intersection(step.makes):
            needed.append(ran[at])
            read.difference_update(step.makes)
            read.update(step.reads)
    return needed[::-1]


def least_bytes(flow: Dataflow) -> int:
    """Bytes below which no plan can be: the most that a step reads and makes, and outputs."""
    sizes = flow.sizes
    needed = [0]
    for step in flow.steps:
        held = {*step.reads, *step.makes}
        bytes_ = int(sizes[list(held)].sum())
        if len(step.makes) == 1 and step.overwrites:
            bytes_ -= int(max((sizes[buffer] for buffer in step.overwrites), default=0))
        needed.append(bytes_)
    return max(*needed, int(sizes[sorted(flow.kept)].sum()))


def cost(flow: Dataflow) -> NDArray[np.float64]:
    """Cost of each step when it runs again: its seconds, if measured, else FLOPs plus bytes."""
    if flow.seconds:
        return np.array([flow.seconds[step.operator] for step in flow.steps])
    moved = [flow.sizes[[*step.reads, *step.makes]].sum() for step in flow.steps]
    flops = np.array([step.flops for step in flow.steps], float)
    return np.asarray(flops + np.array(moved, float))


class _StuckError(Exception):
    """A run that cannot go on within its budget, or costs too much."""


class _Run:
    """Steps run in an order, some of them again; a buffer is dropped where room is needed."""

    def __init__(
        self,
        flow: Dataflow,
        order: Sequence[int],
        budget_bytes: int,
        weights: tuple[float, float],
        most: float,
    ) -> None:
        self.ran: list[int] = []
        self.again = 0.0  # cost of steps that ran before
        self._flow, self._order, self._budget, self._most = flow, order, budget_bytes, most
        self._bytes_weight, self._distance_weight = weights
        self._cost, self._sizes = cost(flow).tolist(), flow.sizes.tolist()
        self._maker = flow.maker.tolist()
        self._resident: set[int] = set()
        self._live = 0  # bytes of what is resident
        place = np.empty(len(flow.steps), np.int64)
        place[list(order)] = np.arange(len(order))
        self._uses = [sorted(int(place[reader]) for reader in readers) for readers in flow.readers]
        self._last_use = [max(uses, default=-1) for uses in self._uses]
        self._done = [False] * len(flow.steps)
        self._now = 0
        self._closed: set[int] = set()  # steps that must not run again
        self._once = flow.kept.union(
            buffer for step in flow.steps if step.is_random or step.after for buffer in step.makes
        )

    def finish(self) -> None:
        """Run all steps. Raises `_StuckError`."""
        for now, step in enumerate(self._order):
            self._now = now
            self._run(step, frozenset(), 0)
            for buffer in list(self._resident):
                if self._last_use[buffer] <= now and buffer not in self._flow.kept:
                    self._drop(buffer)

    def _run(self, step: int, pinned: frozenset[int], depth: int) -> None:
        """Make a step's operands, and room for its results, and run it."""
        current = self._flow.steps[step]
        too_many = len(self.ran) > MOST_RUNS * len(self._order) or depth > len(self._order)
        if too_many or step in self._closed or self.again >= self._most:
            raise _StuckError
        pinned = pinned | {*current.reads}
        for buffer in current.reads:
            if buffer not in self._resident:
                self._run(self._maker[buffer], pinned, depth + 1)
        missing = [buffer for buffer in current.makes if buffer not in self._resident]
        made = sum(self._sizes[buffer] for buffer in missing)
        taken = 0 if depth else self._overwritten(step)
        self._make_room(made - taken, pinned.union(current.makes))
        self.ran.append(step)
        if self._done[step]:
            self.again += self._cost[step]
        self._done[step] = True
        self._closed.update(current.after)
        if current.is_random or current.after:
            self._closed.add(step)
        self._resident |= {*missing}
        self._live += made

    def _overwritten(self, step: int) -> int:
        """Bytes that the result takes over from an operand that is read for the last time."""
        current = self._flow.steps[step]
        if len(current.makes) != 1:
            return 0
        size: int = self._sizes[current.makes[0]]
        is_taken = any(
            self._sizes[buffer] == size
            and buffer not in self._flow.kept
            and self._last_use[buffer] <= self._now
            for buffer in current.overwrites
        )
        return size if is_taken else 0

    def _drop(self, buffer: int) -> None:
        self._resident.remove(buffer)
        self._live -= self._sizes[buffer]

    def _make_room(self, needed: int, pinned: frozenset[int]) -> None:
        while self._live + needed > self._budget:
            least = (np.inf, len(self._sizes))
            for buffer in self._resident - pinned - self._once:
                least = min(least, self._worth(buffer, least[0]))
            if least[1] == len(self._sizes):
                raise _StuckError
            self._drop(least[1])

    def _worth(self, buffer: int, most: float) -> tuple[float, int]:
        """Cost of dropping a buffer, for the bytes and the time that it frees.

        Where that is more than `most`, any number above it.
        """
        if self._last_use[buffer] <= self._now or not self._sizes[buffer]:
            return (0.0 if self._sizes[buffer] else np.inf, buffer)
        uses = self._uses[buffer]
        next_use = uses[bisect_right(uses, self._now)]
        distance = (next_use - self._now) ** self._distance_weight
        size = self._sizes[buffer] ** self._bytes_weight
        return (self._cost_again(buffer, most * size * distance) / (size * distance), buffer)

    def _cost_again(self, buffer: int, most: float) -> float:
        """Cost of the steps that would have to run for it now; of some, once above `most`."""
        waiting, seen, total = [self._maker[buffer]], set[int](), 0.0
        while waiting:
            step = waiting.pop()
            if step in seen:
                continue
            if step in self._closed:
                return np.inf
            seen.add(step)
            total += self._cost[step]
            if total > most * (1 + 1e-9):
                break
            reads = self._flow.steps[step].reads
            waiting += [self._maker[read] for read in reads if read not in self._resident]
        return total

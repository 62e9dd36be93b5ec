"""A memory plan: an order of steps and a place for each buffer, with its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.memory.dataflow import Dataflow
from workbench.memory.lifetimes import Lifetimes
from workbench.memory.packing import check
from workbench.utils.numbers import bytes_as_text


class PlanError(AssertionError):
    """A plan under which something would be overwritten that is still needed."""


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """An order of steps, and an offset for each buffer."""

    planner: str
    lifetimes: Lifetimes  # the order, and of each buffer its first and last place in it
    offsets: NDArray[np.int64]  # bytes from the beginning of the block: (buffers,)

    @property
    def flow(self) -> Dataflow:
        """Steps and buffers."""
        return self.lifetimes.flow

    @property
    def order(self) -> tuple[int, ...]:
        """Steps, by number in the dataflow."""
        return self.lifetimes.order

    def __repr__(self) -> str:
        """Return a line: orders and offsets would fill pages."""
        return (
            f"MemoryPlan({self.planner}: {bytes_as_text(self.total_bytes)}, of which "
            f"{bytes_as_text(self.bound_bytes)} alive at once)"
        )

    @cached_property
    def total_bytes(self) -> int:
        """Bytes of the block."""
        return int((self.offsets + self.flow.sizes).max(initial=0))

    @property
    def bound_bytes(self) -> int:
        """Most bytes alive at once in this order, with these overwritings."""
        return self.lifetimes.bound_bytes

    @cached_property
    def recomputed(self) -> tuple[int, ...]:
        """Steps of the order that ran before: by place, ascending."""
        seen, again = set[int](), list[int]()
        for at, step in enumerate(self.order):
            operator = self.flow.steps[step].operator
            if operator in seen:
                again.append(at)
            seen.add(operator)
        return tuple(again)

    @cached_property
    def table(self) -> pl.DataFrame:
        """A row for each buffer; tensors outside of the plan are in `Dataflow.held`.

        ``node`` is the number of the operator that makes it, ``name`` its name, ``kind`` what it
        is (see `Dataflow.kinds`); ``offset`` and ``bytes``; ``first`` and ``last``:
        places of steps in the order, last exclusive, so that what is overwritten in place ends
        where its successor begins.
        """
        flow = self.flow
        makers = [flow.steps[step] for step in flow.maker]
        return pl.DataFrame(
            {
                "node": [maker.operator for maker in makers],
                "name": [maker.name for maker in makers],
                "kind": flow.kinds,
                "offset": self.offsets,
                "bytes": flow.sizes,
                "first": self.lifetimes.first,
                "last": self.lifetimes.last,
            }
        )


def certify(plan: MemoryPlan) -> MemoryPlan:
    """Prove that a plan is right, and return it, or raise `PlanError`.

    Steps run after what they need, and only those again that may. While a buffer is alive no other
    has a byte of its place; only a result may take the place of an operand, exactly, if the
    operator allows it and nobody reads that operand afterwards. What is returned stays.
    """
    flow, life = plan.flow, plan.lifetimes
    place = np.empty(len(flow.steps), np.int64)
    place[list(plan.order)] = np.arange(len(plan.order))
    for step, earlier in enumerate(flow.before):
        if any(place[before] >= place[step] for before in earlier):
            raise PlanError(f"step {step} runs before what it needs")
    _check_again(plan, place)
    taken = _taken(plan, place)
    for buffer, readers in enumerate(flow.readers):
        first, last = life.first[buffer], life.last[buffer]
        needed = max((int(place[reader]) + 1 for reader in readers), default=int(first) + 1)
        needed = len(plan.order) if buffer in flow.kept else needed
        if first != place[flow.maker[buffer]] or last < needed - (buffer in taken):
            raise PlanError(f"buffer {buffer} is not alive from its making to its last use")
    buffers = {"lower": life.first, "upper": life.last, "size": flow.sizes}
    try:
        check(pl.DataFrame(buffers), plan.offsets)
    except ValueError as error:
        raise PlanError(str(error)) from None
    return plan


def _check_again(plan: MemoryPlan, place: NDArray[np.int64]) -> None:
    """Refuse steps that give other results when they run again."""
    steps = plan.flow.steps
    last = {steps[step].operator: at for at, step in enumerate(plan.order)}
    for number, step in enumerate(steps):
        again = last[step.operator] > place[number]
        if again and (step.is_random or step.after):
            raise PlanError(f"step {number} runs again, which it must not")
        if any(last[steps[before].operator] > place[number] for before in step.after):
            raise PlanError(f"step {number} runs before what must precede it runs again")


def _taken(plan: MemoryPlan, place: NDArray[np.int64]) -> set[int]:
    """Operands that are rightly overwritten by a result."""
    flow, life = plan.flow, plan.lifetimes
    taken = set[int]()
    for number, step in enumerate(flow.steps):
        for buffer in step.reads:
            if life.last[buffer] != place[number]:
                continue  # it outlives the step, or ended before and is refused by its last use
            (made,) = step.makes if len(step.makes) == 1 else (-1,)
            same = plan.offsets[buffer] == plan.offsets[made]
            fits = flow.sizes[buffer] == flow.sizes[made]
            if buffer not in step.overwrites or buffer in flow.kept or not (same and fits):
                raise PlanError(f"step {number} overwrites buffer {buffer}, which it may not")
            taken.add(buffer)
    return taken

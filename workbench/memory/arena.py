"""Runs a graph in one block of memory, every result where its plan puts it.

A proof that a plan is legal. Operators that have such a form write their results into the block;
results of others are made beside it and copied to their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from workbench.memory.dataflow import Step
from workbench.memory.executor import (
    Call,
    bases_of,
    call_of,
    held_registers,
    input_registers,
    placed,
    shown,
    span,
)
from workbench.memory.plan import MemoryPlan
from workbench.profiles.graph import View
from workbench.profiles.private import OpOverload
from workbench.profiles.recorder import writes
from workbench.utils.checks import UserError, check_kind


class Arena:
    """A block of the planned size, and the graph's operators that compute in it.

    Parameters
    ----------
    plan
        A plan of a traced graph, by `workbench.memory.plan_memory`.
    module
        Module that has the weights, by default the one that was traced. They are not changed: what
        the graph writes into is copied.

    Raises ValueError: a plan of a graph that cannot be run.
    """

    def __init__(self, plan: MemoryPlan, module: nn.Module | None = None) -> None:
        graph = check_kind("plan", plan, MemoryPlan, "one of plan_memory").flow.graph
        if graph is None:
            raise UserError("the plan is of stored sizes: trace the graph to run it")
        self.plan, self.graph = plan, graph
        self.block = torch.empty(plan.total_bytes + _ALIGNED, dtype=torch.uint8)
        self._start = -self.block.data_ptr() % _ALIGNED
        self._held = held_registers(graph, module)
        for value in plan.flow.updated.values():
            self._held[value] = self._held[value].clone()
        self._bases = bases_of(graph, self._held)
        again = {plan.order[at] for at in plan.recomputed}
        self._calls = [self._call(plan.flow.steps[at], again=at in again) for at in plan.order]

    def run(self, inputs: Sequence[Tensor] | Tensor) -> tuple[Tensor, ...]:
        """Run the graph; what it returns lies in the block until the next run.

        Raises ValueError: inputs of other shapes or types than the graph was traced for.
        """
        registers = self._held | input_registers(self.graph, inputs)
        with torch.no_grad():
            for call in self._calls:
                call(registers)
        outputs = self.graph.outputs
        return tuple(shown(registers[view.value], view, self._bases) for view in outputs)

    def _call(self, step: Step, *, again: bool) -> Call:
        operator = self.graph.operators[step.operator]
        updated = self.plan.flow.updated.get(operator.makes[0].value)
        if updated is not None:
            return call_of(operator, self._bases, updated)
        if isinstance(operator.function, OpOverload) and writes(operator.function):
            return call_of(operator, self._bases)  # into what the module holds
        values = (view.value for view in operator.makes)
        offsets = dict(zip(values, self.plan.offsets[list(step.makes)].tolist(), strict=True))
        places = {
            at: self._place(view, offsets[view.value])
            for at, view in enumerate(operator.results)
            if view.value in offsets
        }
        return call_of(operator, self._bases, places=places, again=again)

    def _place(self, view: View, offset: int) -> Tensor:
        dtype: Any = getattr(torch, view.dtype)
        if offset % dtype.itemsize:
            raise UserError(
                f"a result of {view.dtype} lies at byte {offset}, no multiple of {dtype.itemsize}: "
                "plan the memory with another alignment, such as 64"
            )
        if 0 in view.shape:
            return torch.empty(view.shape, dtype=dtype)
        start = self._start + offset
        return placed(self.block[start : start + span(view) * dtype.itemsize].view(dtype), view)


_ALIGNED = 64

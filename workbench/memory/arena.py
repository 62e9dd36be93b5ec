"""Runs a graph in one block of memory, every result where its plan puts it.

A proof that a plan is legal: an operator's results are made beside the block, as PyTorch makes
them, and copied to their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from workbench.graphs.graph import Operator, View
from workbench.graphs.private import OpOverload
from workbench.graphs.recorder import tensors_in
from workbench.graphs.running import call, check_inputs, empty, shown, sources, span
from workbench.memory.dataflow import Step
from workbench.memory.plan import MemoryPlan
from workbench.utils.checks import UserError, check_kind


class Arena:
    """A block of the planned size, and the graph's operators that compute in it.

    Parameters
    ----------
    plan
        Of a traced graph, by `workbench.olpb.plan_memory`.
    module
        Whose weights are used, not changed: what the graph writes into is copied. By default those
        of the module that was traced.

    Raises ValueError: a plan of a graph that cannot be run.
    """

    def __init__(self, plan: MemoryPlan, module: nn.Module | None = None) -> None:
        graph = check_kind("plan", plan, MemoryPlan, "one of plan_memory").flow.graph
        if graph is None:
            raise UserError("the plan is of stored sizes: trace the graph to run it")
        self.plan, self.graph = plan, graph
        self.block = torch.empty(plan.total_bytes + _ALIGNED, dtype=torch.uint8)
        self._start = -self.block.data_ptr() % _ALIGNED
        self._inputs = [empty(view) for view in graph.inputs]
        self._known = dict(sources(graph, self._inputs, module))
        for value in plan.flow.updated.values():
            self._known[value] = self._known[value].clone()
        self._calls: list[Callable[[], object]] = []
        self._offsets: dict[int, int] = {}  # of values, where they were computed last
        again = {plan.order[at] for at in plan.recomputed}
        for step in plan.order:
            self._add(plan.flow.steps[step], again=step in again)
        self._outputs = tuple(map(self._tensor, graph.outputs))

    def run(self, inputs: Sequence[Tensor] | Tensor) -> tuple[Tensor, ...]:
        """Run the graph; what it returns lies in the block until the next run.

        Raises ValueError: inputs of other shapes or types than the graph was traced for.
        """
        given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        check_inputs(self.graph, given)
        with torch.no_grad():
            for place, tensor in zip(self._inputs, given, strict=True):
                place.copy_(tensor)
            for call in self._calls:
                call()
        return self._outputs

    def _add(self, step: Step, *, again: bool) -> None:
        operator = self.graph.operators[step.operator]
        reads = [self._tensor(view) for view in operator.reads]
        buffers = iter(step.makes)
        for view in operator.makes:
            if not self._is_outside(operator, view):
                self._offsets[view.value] = int(self.plan.offsets[next(buffers)])
        if operator.name.startswith("as_strided"):
            results = [self._tensor(view) for view in operator.results]
            self._calls.append(partial(_copying, partial(call, operator, reads), results))
            return
        if again and operator.name == "native_batch_norm":  # counts in its statistics once
            args, kwargs = operator.arguments
            operator = replace(operator, arguments=((*args[:6], 0.0, *args[7:]), kwargs))
        function = operator.function
        if isinstance(function, OpOverload) and function._schema.is_mutable:
            self._calls.append(partial(call, operator, reads))  # writes into what it reads
            return
        results = [self._tensor(view) for view in operator.results]
        spans = [self._tensor(self._span(view)) for view in operator.results]
        pairs = zip(results, spans, strict=True)
        dense = all(result.numel() == span.numel() for result, span in pairs)
        into = results if dense else spans
        self._calls.append(partial(_copying, partial(call, operator, reads), into))

    def _span(self, view: View) -> View:
        """From where a result's memory begins to its last number; itself, where that is outside."""
        if view.value in self._known or 0 in view.shape:
            return view
        return replace(view, offset=0, shape=(span(view),), strides=(1,))

    def _is_outside(self, operator: Operator, view: View) -> bool:
        """Whether a result lies in what the graph writes into, outside of the block."""
        for read in operator.reads:
            same = self.graph.values[read.value].storage == self.graph.values[view.value].storage
            if same or self.plan.flow.updated.get(view.value) == read.value:
                self._known[view.value] = self._known[read.value]
                return True
        return False

    def _tensor(self, view: View) -> Tensor:
        if view.value in self._known:
            return shown(self._known[view.value], view)
        dtype: Any = getattr(torch, view.dtype)
        offset = self._offsets[view.value]
        if offset % dtype.itemsize:
            raise UserError(
                f"a result of {view.dtype} lies at byte {offset}, no multiple of {dtype.itemsize}: "
                "plan the memory with another alignment, such as 64"
            )
        start = self._start + offset
        if 0 in view.shape:
            return torch.empty(view.shape, dtype=dtype)
        return shown(self.block[start : start + span(view) * dtype.itemsize].view(dtype), view)


_ALIGNED = 64


def _copying(compute: Callable[[], Any], into: Sequence[Tensor]) -> None:
    """Compute, and copy what comes of it; where a place shows more than a result, all of it."""
    for made, place in zip(tensors_in(compute()), into, strict=True):
        place.copy_(made if made.shape == place.shape else _span(made, len(place)))


def _span(tensor: Tensor, count: int) -> Tensor:
    """Numbers of a tensor's memory, `count` of them, up to its last one, flat."""
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.storage_offset() + last + 1 - count
    return torch.as_strided(tensor, (count,), (1,), start)

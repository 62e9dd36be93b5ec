"""Memory of a step of SGD by the number of samples in it, and what less of it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.graphs.inputs import InputShape
from workbench.memory import BudgetError, MemoryPlan, needs, plan_memory
from workbench.memory.checkpointing import checkpointed
from workbench.memory.process import beside_bytes
from workbench.memory.recomputation import cost, least_bytes, recomputing
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.profiles import LayerTimes, ModelProfile

if TYPE_CHECKING:
    import torch

    from workbench.memory.dataflow import Dataflow

PLANNER = "greedy_by_size"

FEW, MANY = 8, 32
"""Samples with which a module is traced: bytes of a dataflow are affine in the batch."""

SHARES = (1.0, 0.97, 0.94)
"""Of the budget, for which a plan is sought: packing leaves gaps."""

MOST_TRIED = 100_000
"""Choices after which a search for recomputation gives up: a fraction of a second."""


class Recomputation(NamedTuple):
    """A plan that computes some results again, so that a step takes less memory.

    Attributes
    ----------
    needed_bytes
        Of the process.
    forward, backward
        What runs again of each pass, as a share of its work in FLOPs and bytes moved.
    """

    needed_bytes: float
    forward: float
    backward: float

    def added_to(self, times: LayerTimes) -> LayerTimes:
        """Layer times with what runs again, in the backward pass.

        It takes its share of the seconds of its pass, of each layer as much.
        """
        again_s = self.forward * pl.col("forward_s") + self.backward * pl.col("backward_s")
        table = times.table.with_columns(backward_s=pl.col("backward_s") + again_s)
        return replace(times, table=table)


class NodeMemory(NamedTuple):
    """What a training takes of a node's memory.

    Attributes
    ----------
    once_bytes
        Without recomputation.
    needed_bytes
        With that which makes it fit, if there is one.
    fits
        None if the node does not state its memory.
    recomputation_s
        Seconds that the node computes again for each of its batches.
    """

    once_bytes: float
    needed_bytes: float
    fits: bool | None
    recomputation_s: float = 0.0


class StepMemory:
    """Bytes of a step by the samples in it: results planned by size, parameters and gradients.

    Parameters
    ----------
    dataflow
        Of a step, by samples.
    traced
        Two numbers of samples from whose bytes those of others follow, on a line; by default each
        number's own dataflow is planned.
    """

    def __init__(
        self, dataflow: Callable[[int], Dataflow], traced: tuple[int, int] | None = None
    ) -> None:
        self._dataflow, self._traced = dataflow, traced
        self._plan = cache(lambda samples: plan_memory(dataflow(samples), PLANNER))
        self._needed = cache(lambda samples: float(needs(self._plan(samples)).total))
        self._within: dict[tuple[int, float], Recomputation | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without plans, which may hold operators of PyTorch that do not pickle."""
        return StepMemory, (self._dataflow, self._traced)

    def __call__(self, samples: int) -> float:
        """Bytes of a step without recomputation."""
        if self._traced is None or samples in self._traced:
            return self._needed(samples)
        few, many = self._traced
        each = (self(many) - self(few)) / (many - few)
        return self(many) + (samples - many) * each

    @cached_property
    def fixed_bytes(self) -> float:
        """Of a step whatever its samples, on a line through those of `FEW` and `MANY` samples."""
        few, many = self(FEW), self(MANY)
        return max(0.0, few - FEW * (many - few) / (MANY - FEW))

    def within(self, samples: int, room_bytes: float) -> Recomputation | None:
        """The recomputation with which a step fits into `room_bytes`; None if none is found.

        The search is short: it tries a few rooms, and takes the first plan that fits. It may miss
        plans near the least room that is possible, and less recomputation.
        """
        known = samples, room_bytes
        if known not in self._within:
            self._within[known] = _search(self._plan(samples), room_bytes)
        return self._within[known]


def memory_of(
    model: str | torch.nn.Module | ModelProfile,
    input_shape: InputShape | None,
    input_dtype: str | None,
) -> StepMemory | None:
    """Return what a step needs, by samples.

    A model of the zoo at its own shape has a stored dataflow; any other is traced. None for a
    profile, which has no operators, and for a module whose operators depend on its data.
    """
    if isinstance(model, ModelProfile):
        return None
    if isinstance(model, str) and input_shape is None:
        return _of_zoo(model)
    from workbench.graphs.graph import UntraceableError

    memory = StepMemory(partial(_traced, model, input_shape, input_dtype), (FEW, MANY))
    try:
        memory(FEW), memory(MANY)
    except UntraceableError:
        return None
    return memory


@cache
def _of_zoo(model: str) -> StepMemory:
    return StepMemory(partial(stored_dataflow, model, training=True))


def _traced(
    model: str | torch.nn.Module,
    input_shape: InputShape | None,
    input_dtype: str | None,
    samples: int,
) -> Dataflow:
    from workbench.graphs import trace
    from workbench.graphs.optimiser import optimise
    from workbench.memory.dataflow import dataflow

    graph = trace(model, input_shape, samples, True, input_dtype=input_dtype)
    return dataflow(optimise(graph).graph)


def _search(plan: MemoryPlan, room_bytes: float) -> Recomputation | None:
    """The first plan that fits: computing again by buffers, in ever less room, then by stages."""
    flow, order = plan.flow, plan.order
    most = int(min(room_bytes - beside_bytes(flow), plan.total_bytes))
    if most < least_bytes(flow):
        return None
    for search in (partial(recomputing, most_tried=MOST_TRIED), checkpointed):
        for share in SHARES:
            try:
                again = search(flow, order, int(share * most))
            except BudgetError:
                break  # in less room there is even less to find
            tried = plan_memory(again, PLANNER, order="traced")
            if (needed := needs(tried).total) <= room_bytes:
                return Recomputation(float(needed), *_runs_again(flow, again))
    return None


def _runs_again(flow: Dataflow, again: Dataflow) -> Iterator[float]:
    """Work of the forward pass that runs again, as a share of it; the same of all behind it."""
    for is_forward in (True, False):
        once, more = (
            sum(
                each
                for step, each in zip(one.steps, cost(one), strict=True)
                if (step.phase == "forward") is is_forward
            )
            for one in (flow, again)
        )
        yield float(more / once) - 1 if once else 0.0

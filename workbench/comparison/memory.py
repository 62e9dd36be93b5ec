"""Memory of a step of SGD by its number of samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.memory import needs, plan_memory
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.pipelines.memory import StageMemory, stage_memory, stored_stage_memory
from workbench.profiles import ModelProfile
from workbench.profiles.inputs import InputShape
from workbench.runtime import progress

if TYPE_CHECKING:
    import torch

    from workbench.memory.dataflow import Dataflow

PLANNER = "greedy_by_size"

FEW, MANY = 8, 32
"""Batches with which a module is traced: bytes of a dataflow are affine in the batch."""


class NodeMemory(NamedTuple):
    """Memory that a step takes on a node.

    Attributes
    ----------
    needed_bytes
        Bytes at the peak, without recomputation.
    fits
        Whether the node has them; None if it does not state its memory.
    """

    needed_bytes: float
    fits: bool | None


class StepMemory:
    """Bytes of a step by its samples: results planned by size, parameters and gradients.

    Parameters
    ----------
    dataflow
        Makes the dataflow of a step on this many samples.
    traced
        Two batches, from whose bytes those of all others are extrapolated linearly; by default the
        dataflow of each batch is planned.
    stages
        Returns the memory of the model's stages in a pipeline, if that is known.
    """

    def __init__(
        self,
        dataflow: Callable[[int], Dataflow],
        traced: tuple[int, int] | None = None,
        stages: Callable[[], StageMemory | None] = lambda: None,
    ) -> None:
        self._dataflow, self._traced, self._stages = dataflow, traced, stages
        self._needed = cache(
            lambda samples: float(needs(plan_memory(dataflow(samples), PLANNER)).total)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without plans, which may hold operators of PyTorch that do not pickle."""
        return StepMemory, (self._dataflow, self._traced, self._stages)

    def __call__(self, samples: int) -> float:
        """Bytes of a step without recomputation."""
        if self._traced is None or samples in self._traced:
            return self._needed(samples)
        few, many = self._traced
        sample_bytes = (self(many) - self(few)) / (many - few)
        return self(many) + (samples - many) * sample_bytes

    @cached_property
    def stages(self) -> StageMemory | None:
        """Memory of stages, recorded at the first use."""
        return self._stages()

    @cached_property
    def fixed_bytes(self) -> float:
        """Bytes independent of the samples, on the line through `FEW` and `MANY` samples."""
        few, many = self(FEW), self(MANY)
        return max(0.0, few - FEW * (many - few) / (MANY - FEW))


def memory_of(
    model: str | torch.nn.Module | ModelProfile,
    input_shape: InputShape | None,
    input_dtype: str | None,
) -> StepMemory | None:
    """Return the memory of a step of a model.

    A model of the zoo at its own shape has a stored dataflow; any other is traced. None for a
    profile, which has no operators, and for a module whose operators depend on its data.
    """
    if isinstance(model, ModelProfile):
        return None
    if isinstance(model, str) and input_shape is None:
        return _of_zoo(model)
    from workbench.profiles.graph import UntraceableError

    about = model, input_shape, input_dtype
    memory = StepMemory(partial(_traced, *about), (FEW, MANY), partial(_recorded, *about))
    try:
        memory(FEW), memory(MANY)
    except UntraceableError:
        return None
    return memory


@cache
def _of_zoo(model: str) -> StepMemory:
    stages = partial(stored_stage_memory, model)
    return StepMemory(partial(stored_dataflow, model, training=True), stages=stages)


def _recorded(
    model: str | torch.nn.Module, input_shape: InputShape | None, input_dtype: str | None
) -> StageMemory | None:
    with progress.steps("recording the memory of stages", 1) as step:
        step(model if isinstance(model, str) else type(model).__name__)
        return stage_memory(model, input_shape, input_dtype)


def _traced(
    model: str | torch.nn.Module,
    input_shape: InputShape | None,
    input_dtype: str | None,
    samples: int,
) -> Dataflow:
    from workbench.memory import trace
    from workbench.memory.dataflow import dataflow
    from workbench.memory.optimiser import optimise

    graph = trace(model, input_shape, samples, True, input_dtype=input_dtype)
    return dataflow(optimise(graph).graph)

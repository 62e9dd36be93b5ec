"""Memory of a step of SGD by the number of samples in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from workbench.memory import needs, plan_memory
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.profiles import ModelProfile

if TYPE_CHECKING:
    import torch

    from workbench.memory.dataflow import Dataflow

PLANNER = "greedy_by_size"

FEW, MANY = 8, 32
"""Samples with which a module is traced: bytes of a dataflow are affine in the batch."""


def memory_of(
    model: str | torch.nn.Module | ModelProfile,
    input_shape: Sequence[int] | Sequence[Sequence[int]] | None,
    input_dtype: str,
) -> Callable[[int], float] | None:
    """Return bytes of a step, by samples: results planned by size, parameters and gradients.

    A model of the zoo at its own shape has a stored dataflow; any other is traced with `FEW` and
    `MANY` samples, between and beyond which bytes follow a line. None for a profile, which has no
    operators, and for a module whose operators depend on its data.
    """
    if isinstance(model, ModelProfile):
        return None
    if isinstance(model, str) and input_shape is None:
        return cache(lambda samples: _needed(stored_dataflow(model, samples, True)))
    from workbench.graphs import trace
    from workbench.graphs.graph import UntraceableError
    from workbench.graphs.optimiser import optimise
    from workbench.memory.dataflow import dataflow

    def traced(samples: int) -> float:
        graph = trace(model, input_shape, samples, True, input_dtype=input_dtype)
        return _needed(dataflow(optimise(graph).graph))

    try:
        few, many = traced(FEW), traced(MANY)
    except UntraceableError:
        return None
    each = (many - few) / (MANY - FEW)
    return lambda samples: many + (samples - MANY) * each


def _needed(flow: Dataflow) -> float:
    return float(needs(plan_memory(flow, PLANNER)).total)

"""A module as a graph: operators, and the values that they read and make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


class UntraceableError(ValueError):
    """A module whose graph depends on the numbers it computes with."""


@dataclass(frozen=True)
class Parameter:
    """A parameter's name and size; whether it is a matrix (two dimensions or more)."""

    name: str
    size_bytes: int
    is_matrix: bool


@dataclass(frozen=True)
class Value:
    """What a storage holds from one write to the next.

    Views and operators that write in place share a storage; a write makes another value of it.
    `parameters` are those in the storage, by number.
    """

    origin: Literal["input", "parameter", "operator", "constant"]
    storage: int
    storage_bytes: int
    parameters: frozenset[int] = frozenset()


@dataclass(frozen=True)
class View:
    """A tensor as an operator sees it: which part of a value, in elements of its storage."""

    value: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class Operator:
    """A tensor operation below autograd, on a batch.

    Attributes
    ----------
    name
        As PyTorch calls it: ``addmm``.
    weighted
        Whether it multiplies with, or looks up in, a matrix.
    reads, makes
        Its tensors, but for results that are views of what it reads.
    flops
        Of the way forward, two per multiply-add.
    unfolded_bytes
        Size of a convolution's input unfolded, a patch per output pixel.
    module_layer
        Where layers are modules: how many of these had been called.
    """

    name: str
    weighted: bool
    reads: tuple[View, ...]
    makes: tuple[View, ...]
    flops: int
    unfolded_bytes: int
    module_layer: int


@dataclass(frozen=True, eq=False)
class OperatorGraph:
    """A module's operators in their order, as one pass over a batch shows them.

    Attributes
    ----------
    backward_flops
        FLOPs of the gradients of an operator, by its number.
    modules
        Names of the modules that are its layers, in the order of first calls; None where layers
        are found in the graph.
    """

    parameters: tuple[Parameter, ...]
    values: tuple[Value, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[View, ...]
    backward_flops: Mapping[int, int]
    modules: tuple[str, ...] | None

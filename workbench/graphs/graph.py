"""A module as a graph: operators, and the values that they read and make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import torch


class UntraceableError(UserError):
    """A module whose graph depends on the numbers it computes with: why, and what to do instead."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(f"{reason}. {advice}" if advice else reason)
        self.reason, self.advice = reason, advice


@dataclass(frozen=True)
class Parameter:
    """A parameter of the module."""

    name: str
    size_bytes: int
    is_matrix: bool  # of two dimensions or more
    is_trained: bool  # not frozen


@dataclass(frozen=True)
class Value:
    """What a storage holds from one write to the next.

    Views and operators that write in place share a storage; a write makes another value of it.
    """

    origin: Literal["input", "parameter", "operator", "constant"]
    storage: int
    storage_bytes: int
    parameters: frozenset[int] = frozenset()  # numbers of those in the storage
    name: str = ""  # of an input, or under which the module holds it


@dataclass(frozen=True)
class View:
    """A tensor as an operator sees it: which part of a value, in elements of its storage."""

    value: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    size_bytes: int
    dtype: str
    is_conj: bool = False  # PyTorch's lazy bits: the numbers are read conjugated, or negated
    is_neg: bool = False


Phase = Literal["forward", "backward", "update"]


@dataclass(frozen=True)
class Operand:
    """Stands for a tensor among an operator's arguments: which of those that it reads."""

    read: int


@dataclass(frozen=True)
class Operator:
    """A tensor operation below autograd, on a batch."""

    name: str  # as PyTorch calls it: addmm
    reads: tuple[View, ...]
    makes: tuple[View, ...]  # without results that are views of what it reads
    results: tuple[View, ...]  # all, views of what it reads among them
    function: Any  # of PyTorch, and what it is called with: `Operand` in the place of tensors
    arguments: Any
    phase: Phase = "forward"
    flops: int = 0  # two per multiply-add
    unfolded_bytes: int = 0  # of a convolution's input, a patch per output pixel
    module_layer: int = 0  # where layers are modules: how many of these had been called
    weighted: bool = False  # whether it multiplies with, or looks up in, a matrix
    may_overwrite: frozenset[int] = frozenset()  # of what it reads: those whose place it may take
    is_random: bool = False


def trained_statistics(operator: Operator) -> tuple[View, ...]:
    """Running statistics that a batch normalisation changes, which PyTorch's schema hides."""
    if operator.name != "native_batch_norm" or not operator.arguments[0][5]:
        return ()
    held = operator.arguments[0][3:5]
    return tuple(
        operator.reads[argument.read] for argument in held if isinstance(argument, Operand)
    )


@dataclass(frozen=True, eq=False)
class Recording:
    """A module's operators in their order, as one pass over a batch shows them."""

    parameters: tuple[Parameter, ...]
    values: tuple[Value, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[View, ...]
    backward_flops: Mapping[int, int]  # of the gradients of an operator, by its number
    modules: tuple[str, ...] | None  # that are the layers; None where the graph shows layers
    inputs: tuple[View, ...] = ()
    targets: int = 0  # of the inputs, the last ones: what a loss compares with
    preparation: tuple[Operator, ...] = ()  # on constants alone: run once, before all runs
    written_down: Mapping[int, torch.Tensor] = field(default_factory=dict)  # by the module's code
    whole: tuple[range, ...] = ()  # operators of one call of PyTorch's attention each
    name: str = ""  # of the model
    module: Callable[[], torch.nn.Module] | None = None  # with the weights to run with

    @cached_property
    def outside(self) -> frozenset[int]:
        """Values that the graph is given, or makes where one of these is."""
        given = {view.value for view in self.inputs}
        given |= {at for at, value in enumerate(self.values) if value.origin != "operator"}
        storages = {self.values[at].storage for at in given}
        return frozenset(at for at, value in enumerate(self.values) if value.storage in storages)

    @cached_property
    def written(self) -> frozenset[int]:
        """Storages that operators write into: of their results, and of running statistics."""
        return frozenset(
            self.values[view.value].storage
            for operator in self.operators
            for view in (*operator.makes, *trained_statistics(operator))
        )

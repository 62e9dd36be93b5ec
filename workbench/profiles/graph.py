"""A module as a graph: operators, the values that they read and make, and tables of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

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
    is_matrix: bool  # whether it has two dimensions or more
    is_trained: bool  # not frozen


@dataclass(frozen=True)
class Value:
    """Content of a storage from one write to the next.

    Views and operators that write in place share a storage; a write makes another value of it.
    """

    origin: Literal["input", "parameter", "operator", "constant"]
    storage: int
    storage_bytes: int
    parameters: frozenset[int] = frozenset()  # numbers of those in the storage
    name: str = ""  # an input's, or the name by which the module holds it


@dataclass(frozen=True)
class View:
    """A tensor as an operator sees it: a part of a value, in elements of its storage."""

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
    """Placeholder of a tensor among an operator's arguments: its number in `Operator.reads`."""

    read: int


@dataclass(frozen=True)
class Operator:
    """A tensor operation below autograd, on a batch."""

    name: str  # as PyTorch calls it: addmm
    reads: tuple[View, ...]
    makes: tuple[View, ...]  # without results that are views of what it reads
    results: tuple[View, ...]  # all, views of what it reads among them
    function: Any
    arguments: Any  # positional and by name, with `Operand` in the place of tensors
    phase: Phase = "forward"
    flops: int = 0  # two per multiply-add
    unfolded_bytes: int = 0  # a convolution's input as a patch per output pixel
    module_layer: int = 0  # modules called before it, where modules are the layers
    weighted: bool = False  # whether it multiplies with, or looks up in, a matrix
    may_overwrite: frozenset[int] = frozenset()  # numbers of reads whose place its result may take
    is_random: bool = False


def uses_batch_statistics(operator: Operator) -> bool:
    """Whether an operator normalises by the mean and variance of its batch."""
    return operator.name == "native_batch_norm" and bool(operator.arguments[0][5])


def trained_statistics(operator: Operator) -> tuple[View, ...]:
    """Running statistics that a batch normalisation changes, though its schema does not say so."""
    if not uses_batch_statistics(operator):
        return ()
    held = operator.arguments[0][3:5]
    return tuple(
        operator.reads[argument.read] for argument in held if isinstance(argument, Operand)
    )


NODES: dict[str, Any] = {
    "node": pl.Int64,
    "name": pl.String,
    "kind": pl.String,
    "phase": pl.String,
    "shape": pl.List(pl.Int64),
    "dtype": pl.String,
    "bytes": pl.Int64,
    "flops": pl.Int64,
    "may_overwrite": pl.List(pl.Int64),
    "shows": pl.Int64,
}


@dataclass(frozen=True, eq=False)
class OperatorGraph:
    """A module's operators in their order, as one pass over a batch, or a step of training, shows.

    Attributes
    ----------
    backward_flops
        FLOPs of the gradients of an operator, by its number, where a backward pass was followed.
    modules
        Names of those that are the layers; None where the graph shows layers.
    targets
        How many of the inputs, the last ones, a loss compares with.
    preparation
        Operators on constants alone, which run once, before all runs.
    literals
        Tensors in the module's code, by value.
    attention_calls
        Operators of each call of PyTorch's attention.
    name, module
        Of the model, and what gives the module with the weights to run with.
    """

    parameters: tuple[Parameter, ...]
    values: tuple[Value, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[View, ...]
    inputs: tuple[View, ...] = ()
    backward_flops: Mapping[int, int] = field(default_factory=dict)
    modules: tuple[str, ...] | None = None
    targets: int = 0
    preparation: tuple[Operator, ...] = ()
    literals: Mapping[int, torch.Tensor] = field(default_factory=dict)
    attention_calls: tuple[range, ...] = ()
    name: str = ""
    module: Callable[[], torch.nn.Module] | None = None

    def __repr__(self) -> str:
        """In a line: the operators' lists would fill pages."""
        return f"OperatorGraph({self.name}: {len(self.operators)} operators)"

    @cached_property
    def outside(self) -> frozenset[int]:
        """Values in storages that the graph does not make, but is given or holds."""
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

    @cached_property
    def nodes(self) -> pl.DataFrame:
        """Values read from outside, and then the operators: a row each.

        ``node`` is a number; ``name`` an operator's, or that of an input, parameter or constant;
        ``kind`` one of those four words; ``phase`` an operator's; ``shape``, ``dtype`` and
        ``bytes`` of its first result, and of all results that are no views; ``flops``, two per
        multiply-add; ``may_overwrite`` has nodes whose results it may take the place of, ``shows``
        the node whose memory a view shows.
        """
        return self._tables[0]

    @cached_property
    def edges(self) -> pl.DataFrame:
        """Reads of results: ``source`` and ``target`` are nodes, each pair once."""
        return self._tables[1]

    @cached_property
    def _tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Nodes in the order in which they are first read or run, and edges."""
        rows: list[dict[str, Any]] = []
        edges: dict[tuple[int, int], None] = {}
        prepared = {view.value for operator in self.preparation for view in operator.makes}
        makers: dict[int, int] = {}  # node that made a value
        showing: dict[View, int] = {}  # node whose result is just this view

        def add(shown: View | None, **about: Any) -> None:
            form = {"shape": list(shown.shape), "dtype": shown.dtype} if shown else {}
            rows.append({"node": len(rows), **form, **about})

        reads = (view for operator in self.operators for view in operator.reads)
        for view in (*self.inputs, *reads):
            value = self.values[view.value]
            kind = "constant" if view.value in prepared else value.origin
            if kind != "operator" and view.value not in makers:
                makers[view.value] = len(rows)
                about = {"name": value.name, "kind": kind, "bytes": value.storage_bytes, "flops": 0}
                add(view, **about, may_overwrite=[])
        for operator in self.operators:
            node = len(rows)
            sources = [showing.get(view, makers[view.value]) for view in operator.reads]
            edges |= dict.fromkeys((source, node) for source in sources)
            makers |= dict.fromkeys((view.value for view in operator.makes), node)
            add(
                operator.results[0] if operator.results else None,
                name=operator.name,
                kind="operator",
                phase=operator.phase,
                bytes=sum(view.size_bytes for view in operator.makes),
                flops=operator.flops,
                may_overwrite=[sources[at] for at in sorted(operator.may_overwrite)],
                shows=None if operator.makes or not operator.results else next(iter(sources), None),
            )
            showing |= dict.fromkeys(operator.results, node)
        schema = {"source": pl.Int64, "target": pl.Int64}
        return pl.DataFrame(rows, schema=NODES), pl.DataFrame(list(edges), schema, orient="row")

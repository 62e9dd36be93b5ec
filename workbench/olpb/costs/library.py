"""A network as the paper's library counts it: every operator that a gradient passes, and parameter.

Owl, the library that OLPB is built on, records on a tape what gradients pass through. Its layers
are small graphs there:

==================  ====================================================================
layer               nodes
==================  ====================================================================
convolution         parameters w and b, convolution, add; it always has a bias
linear              parameters w and b, dot, add
normalisation       parameters gamma and beta, sub, div, mul, add; statistics are constants
dropout             dropout, mul
softmax             sub, exp, sum, div
concatenation of k  k - 1 times concat, two at a time
any other           one for each operator
==================  ====================================================================

The loss is cross entropy: log, mul, sum and neg; and the input is a node. Layers are all that a
network is written as, activations, dropouts and flattening among them, without input and loss.
Counted so, the four networks of Table I as Owl's own examples write them have exactly the layers
and nodes that the paper states (49, 153, 97, 1,097; 17, 65, 38, 313). Those examples differ from
the zoo's networks in a few layers: CifarNet begins with a normalisation, which has two operators
with a gradient there, SqueezeNet is version 1.1 without the first ReLU, VGG16 and Inception-v3 have
no dropout, and each linear layer of VGG16 reshapes what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from workbench.memory import trace
from workbench.profiles import OperatorGraph, inputs_of
from workbench.profiles.inputs import InputShape
from workbench.utils.checks import UserError
from workbench.zoo import build

if TYPE_CHECKING:
    import torch

    from workbench.profiles.graph import Operator, View

NODES: dict[str, Any] = {
    "node": pl.Int64,
    **dict.fromkeys(("name", "kind"), pl.String),
    **dict.fromkeys(("layer", "level"), pl.Int64),
    "shape": pl.List(pl.Int64),
    **dict.fromkeys(("numbers", "backward_flops"), pl.Int64),
}

NORMALISATION = ("sub", "div", "mul", "add")
SOFTMAX = ("sub", "exp", "sum", "div")
CROSS_ENTROPY = ("log", "mul", "sum", "neg")
MIB = 2**20
"""Table I's MB: 528 of them are VGG16's 138,357,544 parameters of four bytes."""


@dataclass(frozen=True, eq=False)
class LibraryGraph:
    """Nodes and edges of a network in the library's granularity.

    Attributes
    ----------
    nodes
        A row each: ``node``, ``name``, ``kind`` (input, parameter, operator); ``layer``, from 1,
        null for input and loss; ``level``, an operator's longest path from the input, a
        parameter's that of its operator; ``shape`` and ``numbers`` of what it holds;
        ``backward_flops``, of the gradient that the node passes on towards the input, and of a
        parameter's own: two per multiply-add, one for each number where an operator computes each
        by itself.
    edges
        Who reads whom: ``source`` and ``target``.
    layers
        How many.
    """

    name: str
    nodes: pl.DataFrame
    edges: pl.DataFrame
    layers: int

    @property
    def parameter_mib(self) -> float:
        """Parameters in single precision, in units of 2^20 bytes."""
        return float(self.nodes.filter(kind="parameter")["numbers"].sum()) * 4 / MIB


def library_graph(
    graph_or_model: OperatorGraph | str | torch.nn.Module,
    input_shape: InputShape | None = None,
    *,
    training: bool = True,
) -> LibraryGraph:
    """Count a network as the paper's library does (OLPB, Sec. III, Table I).

    A model is traced with one sample; a graph of inference shows no dropouts. In `training`
    dropouts count, and softmax and cross entropy after scores of several classes; a network that
    ends in another way has the sum of all it returns for its loss.
    """
    graph = graph_or_model
    if isinstance(graph, OperatorGraph):
        named = graph.name
    else:
        named = graph if isinstance(graph, str) else type(graph).__name__
        inputs = inputs_of(graph, input_shape)
        module = build(graph, "meta") if isinstance(graph, str) else graph
        graph = trace(_with_dropouts(named, module) if training else module, inputs)
    if not graph.parameters:
        raise UserError(f"{named} has no parameters, so there are no gradients to count")
    counted = _Counted(graph)
    for operator in graph.operators:
        counted.add(operator)
    if training:
        counted.add_loss()
    ends = {"source": pl.Int64, "target": pl.Int64}
    edges = pl.DataFrame(sorted(counted.edges), ends, orient="row")
    return LibraryGraph(named, pl.DataFrame(counted.rows, NODES), edges, counted.layer)


def _with_dropouts(name: str, module: torch.nn.Module) -> torch.nn.Module:
    """A copy whose dropouts drop in evaluation mode, too, so that they are seen."""
    from torch import nn

    from workbench.profiles.copies import copied_with

    class Dropping(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(x, 0.5, training=True)

    dropouts = [part for part in module.modules() if isinstance(part, nn.Dropout)]
    if not dropouts or module in dropouts:
        return module
    copied = copied_with(name, module, lambda tensor: tensor.detach())
    for part in list(copied.modules()):
        for key, child in part.named_children():
            if isinstance(child, nn.Dropout):
                setattr(part, key, Dropping())
    return copied


@dataclass
class _Counted:
    """Nodes so far, and which of them each value of the traced graph is."""

    graph: OperatorGraph
    rows: list[dict[str, Any]] = field(default_factory=list)
    edges: set[tuple[int, int]] = field(default_factory=set)
    layer: int = 0
    in_loss: bool = False
    shown: dict[Any, int] = field(default_factory=dict)  # node of a view, or of a whole value
    random: set[int] = field(default_factory=set)  # values that masks are made of
    pooled: set[int] = field(default_factory=set)  # nodes that are maps of one pixel

    def __post_init__(self) -> None:
        for view in self.graph.inputs:
            name = self.graph.values[view.value].name
            self.shown[view.value] = self._row(name, "input", view.shape)

    def add(self, operator: Operator) -> None:
        name, reads = operator.name, operator.reads
        from_masks = reads and all(view.value in self.random for view in reads)
        if from_masks or "bernoulli" in name:
            self.random |= {view.value for view in operator.results}
        data = [view for view in reads if self._carries(view)]
        learnt = [view for view in reads if self._is_parameter(view)]
        if not data and not operator.makes:
            return  # a parameter, transposed or cut
        made = operator.results[0] if operator.results else None
        source = self._node(data[0]) if data else None
        idle = "adaptive" in name and made is not None and made.shape == data[0].shape
        if made is None or not (learnt or any(self._has_gradient(view) for view in data)) or idle:
            for view in operator.results if source is not None else ():
                self.shown[view] = self.shown[view.value] = cast(int, source)
            return
        flattened = "view" in name and source in self.pooled
        self.layer += not flattened  # the library's global pooling makes vectors itself
        node = self._operators(operator, made, data, learnt)
        if name == "mean" or "adaptive" in name:
            self.pooled |= {node} if prod(made.shape[2:]) == 1 else set()
        for view in operator.results:
            self.shown[view] = node
            if operator.makes:
                self.shown[view.value] = node

    def add_loss(self) -> None:
        """Softmax, where a network ends in scores, and cross entropy; or a sum."""
        outputs = [view for view in self.graph.outputs if self._carries(view)]
        if not outputs:
            raise UserError(f"{self.graph.name} returns nothing that its parameters change")
        (first, *others), ends = outputs, [self._node(view) for view in outputs]
        numbers = prod(first.shape)
        scores = not others and len(first.shape) == self._dimensions and first.shape[-1] > 1
        if scores and not any("softmax" in last.name for last in self.graph.operators[-1:]):
            self.layer += 1
            ends = [self._chain(SOFTMAX, first.shape, ends, numbers)]
        self.in_loss = True
        if not scores:
            total = sum(prod(view.shape) for view in outputs)
            self._chain(("sum",), (1,), ends, total)
            return
        node = self._chain(CROSS_ENTROPY[:2], first.shape, ends, numbers)
        self._chain(CROSS_ENTROPY[2:], (1,), [node], 1)

    @property
    def _dimensions(self) -> int:
        """Dimensions of scores: samples x classes, of a text samples x positions x classes."""
        taken = self.graph.inputs[0]
        is_text = taken.dtype.startswith("int") and len(taken.shape) == 2
        return 3 if is_text and len(self.graph.outputs[0].shape) == 3 else 2

    def _operators(
        self, operator: Operator, made: View, data: list[View], learnt: list[View]
    ) -> int:
        """Nodes of one operator of the trace; the last of them."""
        name, numbers = operator.name, prod(made.shape)
        sources = [node for node in map(self._node, data) if node is not None]
        if "convolution" in name or name == "addmm":
            called, *places = ("convolution", 1, 2) if "convolution" in name else ("dot", 2, 0)
            weight, bias = (self._learnt(operator, at, learnt) for at in places)
            channels = made.shape[1] if len(made.shape) > 1 else made.shape[0]
            w = self._parameter(weight, operator.flops) if weight is not None else None
            b = self._parameter(bias, numbers, (channels,), "bias")
            on_input = operator.flops * any(self._has_gradient(view) for view in data)
            node = self._chain((called,), made.shape, [*sources, w], on_input)
            return self._chain(("add",), made.shape, [node, b], numbers)
        if "norm" in name and "native" in name:
            return self._normalisation(made, sources, learnt)
        if "softmax" in name:
            return self._chain(SOFTMAX, made.shape, sources, numbers)
        if name == "mul" and any(view.value in self.random for view in operator.reads):
            return self._chain(("dropout", "mul"), made.shape, sources, numbers)
        if name == "cat" and len(sources) > 1 and not learnt:
            axis = operator.arguments[0][1] if len(operator.arguments[0]) > 1 else 0
            return self._concatenation(made, axis, data, sources)
        flops = operator.flops or self._each(operator, numbers)
        parameters = [self._parameter(view, flops) for view in learnt]
        on_input = flops * sum(self._has_gradient(view) for view in data)
        if not operator.makes:
            name, on_input = "reshape" if "view" in name else name, 0
        return self._chain((name,), made.shape, [*sources, *parameters], on_input)

    def _normalisation(self, made: View, sources: list[int], learnt: list[View]) -> int:
        """Four operators, of which the third reads gamma and the last beta, if there are any."""
        numbers, first = prod(made.shape), len(NORMALISATION) - len(learnt)
        own = dict(enumerate((self._parameter(view, 2 * numbers) for view in learnt), first))
        carries = any(self.rows[node]["kind"] == "operator" for node in sources)
        for place, name in enumerate(NORMALISATION):
            if carries or place >= first:  # else of input and constants alone
                read = [*sources, *([own[place]] if place in own else [])]
                sources = [self._chain((name,), made.shape, read, numbers)]
        return sources[0]

    def _concatenation(
        self, made: View, axis: int, data: Sequence[View], sources: Sequence[int]
    ) -> int:
        joined, shape = sources[0], list(data[0].shape)
        for source, view in zip(sources[1:], data[1:], strict=True):
            shape[axis] += view.shape[axis]
            numbers = prod(shape)
            joined = self._chain(("concat",), shape, [joined, source], numbers)
        return joined

    def _chain(
        self,
        names: Sequence[str],
        shape: Sequence[int],
        sources: Iterable[int | None],
        backward_flops: int,
    ) -> int:
        """Operators one after the other, of the same size; the last of them."""
        read = [node for node in sources if node is not None]
        for name in names:
            data = [at for at in read if self.rows[at]["kind"] != "parameter"]
            level = 1 + max((self.rows[at]["level"] for at in data), default=0)
            node = self._row(name, "operator", shape, level=level)
            self.rows[node]["backward_flops"] = backward_flops
            for source in read:
                self.edges.add((source, node))
                if self.rows[source]["kind"] == "parameter" and not self.rows[source]["level"]:
                    self.rows[source]["level"] = level
            read = [node]
        return read[0]

    def _row(self, name: str, kind: str, shape: Sequence[int], *, level: int = 0) -> int:
        layer = None if kind == "input" or self.in_loss else self.layer
        row = (len(self.rows), name, kind, layer, level, list(shape), prod(shape), 0)
        self.rows.append(dict(zip(NODES, row, strict=True)))
        return len(self.rows) - 1

    def _parameter(
        self, view: View | None, backward_flops: int, shape: Sequence[int] = (), name: str = ""
    ) -> int:
        """Node of a parameter, one however often it is used; or of a bias that is not there."""
        if view is None:
            known = self._row(name, "parameter", shape)
        elif view.value in self.shown:
            known = self.shown[view.value]
        else:
            called = self.graph.values[view.value].name
            known = self.shown[view.value] = self._row(called, "parameter", view.shape)
        self.rows[known]["backward_flops"] += backward_flops
        return known

    @staticmethod
    def _learnt(operator: Operator, at: int, learnt: list[View]) -> View | None:
        reads = operator.reads
        return reads[at] if at < len(reads) and reads[at] in learnt else None

    def _each(self, operator: Operator, numbers: int) -> int:
        """FLOPs of gradients number by number: of a window's, for each that it makes."""
        arguments = operator.arguments[0]
        if operator.name.startswith("max_pool"):
            return numbers
        if "pool" in operator.name and "adaptive" not in operator.name and len(arguments) > 1:
            return numbers * int(prod(arguments[1]))
        return max(numbers, *(prod(view.shape) for view in operator.reads))

    def _is_parameter(self, view: View) -> bool:
        return self.graph.values[view.value].origin == "parameter"

    def _node(self, view: View) -> int | None:
        return self.shown.get(view, self.shown.get(view.value))

    def _carries(self, view: View) -> bool:
        """Whether a view shows something that is computed from the input, or the input."""
        return not self._is_parameter(view) and self._node(view) is not None

    def _has_gradient(self, view: View) -> bool:
        node = self._node(view)
        return node is not None and self.rows[node]["kind"] == "operator"

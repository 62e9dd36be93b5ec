"""A module's graph of calls, and which layer of its profile each of them belongs to.

`torch.fx` finds the calls; the layers are those of `workbench.profiles.chain`, whose recorder
watches while the graph runs once on meta tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from workbench.profiles.tracing import tensors_in


@dataclass(frozen=True, eq=False)
class Crossing:
    """A tensor that crosses a cut: the calls that give it, in their order; bytes per sample."""

    nodes: tuple[fx.Node, ...]
    bytes_per_sample: int


@dataclass(frozen=True, eq=False)
class PieceGraph:
    """Calls of a module, each in its layer.

    Attributes
    ----------
    inputs, output
        What the module takes and gives.
    calls
        What computes on samples, in the module's order, with its layer from 1. All else
        (parameters, what is made of them alone, sizes) is made anew wherever it is needed.
    crossings
        What crosses the cut behind layer 1, 2, ..., N-1.
    sizes
        What calls on samples give that is no tensor, for the two batches of `BATCHES`.
    stored
        Tensors that the module made while it was traced, by the names that the graph gave them.
    mutating
        Calls that write into what they are given.
    parameters, buffers
        Names of those that each layer uses.
    """

    inputs: tuple[fx.Node, ...]
    output: fx.Node
    calls: dict[fx.Node, int]
    crossings: tuple[tuple[Crossing, ...], ...]
    sizes: dict[fx.Node, tuple[Any, Any]]
    stored: dict[str, Tensor]
    mutating: frozenset[fx.Node]
    parameters: tuple[frozenset[str], ...]
    buffers: tuple[frozenset[str], ...]

    def run(
        self, module: nn.Module, first: int, last: int, tensors: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Run layers `first` to `last` of the module; see `Pieces.run`."""
        calls = [node for node, layer in self.calls.items() if first <= layer <= last]
        if not self.mutating.isdisjoint(calls):
            # What others sent is theirs, and a leaf that needs a gradient cannot be written to.
            tensors = tuple(tensor.clone() for tensor in tensors)
        given = [(node,) for node in self.inputs] if first == 1 else self._nodes(first - 1)
        known: dict[fx.Node, Any] = {
            node: tensor for nodes, tensor in zip(given, tensors, strict=True) for node in nodes
        }
        running = _Running(self, module, known, tensors[0])
        for node in calls:
            known[node] = running.call(node)
        if last > len(self.crossings):
            return tuple(tensors_in(running.arguments(self.output.args)))
        return tuple(known[nodes[0]] for nodes in self._nodes(last))

    def _nodes(self, cut: int) -> list[tuple[fx.Node, ...]]:
        return [crossing.nodes for crossing in self.crossings[cut - 1]]


BATCHES = (2, 3)  # two, since batch normalisation refuses one; three, to see what changes with it


@dataclass(frozen=True, eq=False)
class _Running:
    graph: PieceGraph
    module: nn.Module
    known: dict[fx.Node, Any]
    sample: Tensor  # any tensor of the batch: tells its length and device

    def call(self, node: fx.Node) -> Any:
        arguments = self.arguments((node.args, node.kwargs))
        return call(node, self.module, self.graph.stored, *arguments)

    def arguments(self, of: Any) -> Any:
        return fx.node.map_arg(of, self._value)

    def _value(self, node: fx.Node) -> Any:
        if node not in self.known:
            if node in self.graph.sizes:
                self.known[node] = self._size(*self.graph.sizes[node])
            else:
                self.known[node] = self.call(node)
        return self.known[node]

    def _size(self, two: Any, three: Any) -> Any:
        """Continue in a straight line what a call gave for batches of two and of three."""
        if isinstance(two, torch.device):
            return self.sample.device
        if isinstance(two, tuple):
            return tuple(self._size(*pair) for pair in zip(two, three, strict=True))
        return two if two == three else two + (three - two) * (len(self.sample) - BATCHES[0])


def call(
    node: fx.Node, module: nn.Module, stored: dict[str, Tensor], args: Any, kwargs: Any
) -> Any:
    """Do what a node of a graph stands for."""
    if node.op == "call_module":
        return module.get_submodule(str(node.target))(*args, **kwargs)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    if node.op == "get_attr":
        name = str(node.target)
        return stored[name] if name in stored else _attribute(module, name)
    if node.op == "placeholder":  # an input that was left out
        return next(iter(node.args), None)
    assert callable(node.target)
    return node.target(*args, **kwargs)


def names_used(
    node: fx.Node, calls: Iterable[fx.Node], module: nn.Module, names: dict[int, str]
) -> frozenset[str]:
    """Names of the tensors (parameters or buffers, by identity) that a call uses."""
    found: set[str] = set()
    open_nodes, samples = [node], set(calls)
    while open_nodes:
        one = open_nodes.pop()
        if one.op == "call_module":
            part = module.get_submodule(str(one.target))
            found |= {names[id(t)] for t in (*part.parameters(), *part.buffers()) if id(t) in names}
        elif one.op == "get_attr":
            held = _attribute(module, str(one.target))
            found |= {names[id(held)]} if id(held) in names else set()
        open_nodes += [before for before in one.all_input_nodes if before not in samples]
    return frozenset(found)


def _attribute(module: nn.Module, name: str) -> Any:
    at: Any = module
    for key in name.split("."):
        at = getattr(at, key, None)
    return at

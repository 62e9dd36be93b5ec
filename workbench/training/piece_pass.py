"""One run of a module's graph on meta tensors, which shows the layer of each of its calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, fx, nn

from workbench.profiles import tracing
from workbench.profiles.chain import CONSTANT, Recorder
from workbench.profiles.tracing import tensors_in
from workbench.training.piece_graph import call


@dataclass(eq=False)
class Pass:
    """One run of the graph on meta tensors, and what it shows of each call.

    Attributes
    ----------
    values
        What each node gave.
    layers
        Of each call on samples.
    sizes
        Calls on samples that gave no tensor.
    mutating
        Calls that wrote into what they were given.
    """

    name: str
    graph: fx.Graph
    module: nn.Module
    stored: dict[str, Tensor]
    recorder: Recorder
    values: dict[fx.Node, Any] = field(default_factory=dict)
    layers: dict[fx.Node, int] = field(default_factory=dict)
    sizes: list[fx.Node] = field(default_factory=list)
    mutating: set[fx.Node] = field(default_factory=set)
    _read_in: dict[int, int] = field(default_factory=dict)  # storage -> last layer to read it

    def run(self, inputs: tuple[Tensor, ...]) -> None:
        """Run on a batch."""
        given = iter(inputs)
        for tensor in inputs:
            self.recorder.take_input(tensor)
        with tracing.learning(), self.recorder:
            for node in self.graph.nodes:
                if node.op == "placeholder":
                    default = node.args[0] if node.args else None
                    self.values[node] = next(given, default)
                elif node.op != "output":
                    self._call(node)

    @property
    def output(self) -> fx.Node:
        """What the module gives."""
        output: fx.Node = next(node for node in self.graph.nodes if node.op == "output")
        return output

    def _call(self, node: fx.Node) -> None:
        arguments = fx.node.map_arg((node.args, node.kwargs), self.values.__getitem__)
        read = tensors_in(arguments)
        versions = [tensor._version for tensor in read]
        homes = set(self.recorder.home)
        value = self.values[node] = call(node, self.module, self.stored, *arguments)
        made = [self.recorder.made_in(tensor) for tensor in tensors_in(value)]
        written = [
            tensor for tensor, was in zip(read, versions, strict=True) if tensor._version != was
        ]
        layer = max(made, default=CONSTANT)
        on_samples = any(self.recorder.made_in(tensor) != CONSTANT for tensor in read)
        if written:
            self.mutating.add(node)
        if layer == CONSTANT:
            if on_samples and not made:
                self.sizes.append(node)
            return
        self.layers[node] = layer
        self._check_within(
            node, {self.recorder.home[one] for one in self.recorder.home.keys() - homes}
        )
        self._check_order(node, layer, read, written)

    def _check_within(self, node: fx.Node, layers: set[int]) -> None:
        if len(layers) > 1:
            raise ValueError(
                f"{self.name} cannot be cut: {str(node.target)!r} alone makes layers "
                f"{min(layers)} to {max(layers)}, and torch.fx does not look into it; build it of "
                "smaller parts"
            )

    def _check_order(
        self, node: fx.Node, layer: int, read: list[Tensor], written: list[Tensor]
    ) -> None:
        """Refuse to write early, as one of the first layers, what a later layer has read before."""
        for tensor in written:
            last = self._read_in.get(tensor.untyped_storage()._cdata, 0)
            if last > layer:
                raise ValueError(
                    f"{self.name} cannot be cut: {node.name!r} of layer {layer} changes in place "
                    f"what layer {last} needs unchanged; let it return a new tensor"
                )
        for tensor in read:
            key = tensor.untyped_storage()._cdata
            self._read_in[key] = max(layer, self._read_in.get(key, 0))

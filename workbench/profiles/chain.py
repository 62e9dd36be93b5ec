"""A module becomes a chain of layers (DynaComm, Cai et al. 2021, Sec. III-A).

"If the computation graph contains branches, the parameters from different branches with the same
depth will be considered as one layer. As for the transformation layers with no actual parameter,
[…] they are considered as a computation portion of their previous layer."

The rule, as it is read here, for operations in the order in which the module calls them:

- An operation that multiplies with, or looks up in, a weight matrix not used before (`WEIGHTED`:
  convolution, matrix product, embedding, recurrent cell, …) is one deeper than its deepest
  input. Every other operation is as deep as its deepest input.
- Depth is the number of the layer; depth 0, before the first weighted operation, is layer 1.
- So normalisation, biases, scales, activations and poolings belong to the layer before, and so
  does a further use of tied weights, though never to a layer before the weights' own.
- What is computed from parameters alone (weight normalisation) belongs to the layer that uses
  it; what nothing uses (a counter of batches) to that of the operation before.
- A parameter that is never used belongs to the layer of the one registered before it.

The graph is that of tensor operations, seen below autograd while the module runs once (on meta
tensors: shapes only, no numbers), so any Python in `forward` is followed, except where it asks
for a number. Storages stand for values, since views and in-place operations share them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

_aten = torch.ops.aten

WEIGHTED = frozenset(flop_registry) | {
    _aten.mv,
    _aten.embedding,
    _aten._embedding_bag,
    _aten._trilinear,
    _aten._cdist_forward,
    _aten.mkldnn_rnn_layer,
    _aten._cudnn_rnn,
    _aten.miopen_rnn,
}

CONSTANT = -1  # depth of what no input of the module has touched


@dataclass(eq=False)
class Value:
    """What a storage holds between two writes.

    `uses` maps a view of it (offset, shape, strides) to its bytes and the last layer that reads
    it; `weights` and `operations` are what a constant was made from.
    """

    depth: int
    made_in: int = 0
    storage_bytes: int = 0
    uses: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict)
    weights: frozenset[int] = frozenset()
    operations: tuple[int, ...] = ()


def next_node() -> int:
    """Sequence number of the next autograd node that this thread makes."""
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


class NodeOwners:
    """Finds which mark of the forward pass made an autograd node, by sequence number.

    Nodes are numbered in the order in which the forward pass makes them, so a node belongs to
    the last mark whose first node is not later.
    """

    def __init__(self, first_nodes: Sequence[int]) -> None:
        self._starts = first_nodes

    def __getitem__(self, node: int) -> int:
        return max(bisect_right(self._starts, node) - 1, 0)


class NodeCounter:
    """Tells, operation by operation and from within each, the first node that may be its own.

    Autograd numbers an operation's node just before it runs the operation, if it makes one.
    """

    def __init__(self) -> None:
        self._next = next_node()

    def first_node(self) -> int:
        """Its number; that of a node still to come, if the running operation made none."""
        before, self._next = self._next, next_node()
        return self._next - 1 if self._next > before else self._next


@dataclass
class Operation:
    """A forward operation: its layer, its work, and the first autograd node that may be its own."""

    layer: int
    first_node: int
    forward_flops: int
    backward_flops: int = 0
    moved_bytes: int = 0


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows one forward and backward pass and gives every operation its layer.

    Parameters
    ----------
    parameters
        The module's parameters by name, each once.
    by_modules
        Layers are not found by depth but told: whoever runs the module raises `current`.
    """

    def __init__(
        self, parameters: Mapping[str, torch.nn.Parameter], *, by_modules: bool = False
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = list(parameters)
        self.matrices = {i for i, p in enumerate(parameters.values()) if p.dim() > 1}
        self.by_modules = by_modules
        self.current = 0
        self.in_backward = False
        self.home: dict[int, int] = {}  # parameter -> its layer
        self.bearers: dict[int, list[str]] = {}  # layer -> who bears its weights
        self.operations: list[Operation] = []
        self.values: list[Value] = []
        self._held: dict[int, tuple[StorageWeakRef, Value]] = {}
        self._nodes = NodeCounter()
        self._owners: NodeOwners | None = None
        for index, parameter in enumerate(parameters.values()):
            before = self._value(parameter).weights
            self._hold(parameter, Value(CONSTANT, weights=before | {index}))

    def take_input(self, tensor: torch.Tensor) -> None:
        """Declare a tensor an input of the module."""
        self._hold(tensor, Value(0, storage_bytes=tensor.untyped_storage().nbytes()))

    def give_output(self, tensor: torch.Tensor) -> None:
        """Declare a tensor an output of the module, needed beyond the last layer."""
        _note_use(self._value(tensor), tensor, self.layer_count() + 1)

    def made_in(self, tensor: torch.Tensor) -> int:
        """Layer that made a tensor as it is now; `CONSTANT` if no input has touched it."""
        depth = self._value(tensor).depth
        return max(depth, 1) if depth != CONSTANT else CONSTANT

    def layer_count(self) -> int:
        """Layers seen so far, at least one."""
        return max([1, self.current, *self.home.values()])

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        tensors = list(_tensors((*args, *kwargs.values())))
        _refuse_numbers(func, tensors)
        out = func(*args, **kwargs)
        flops = _flops(func._overloadpacket, args, kwargs, out)
        if self.in_backward:
            if flops:
                self._running_operation().backward_flops += flops
        else:
            self._follow(func, tensors, list(_tensors((out,))), flops)
            if flops and func._overloadpacket is _aten.convolution:
                self.operations[-1].moved_bytes += 2 * _patch_bytes(args, out)
        return out

    def _follow(
        self, func: Any, inputs: list[torch.Tensor], outputs: list[torch.Tensor], flops: int
    ) -> None:
        values = [self._value(tensor) for tensor in inputs]
        weights = frozenset[int]().union(*(value.weights for value in values))
        depth = max((value.depth for value in values), default=CONSTANT)
        index = len(self.operations)
        before = self.operations[-1].layer if self.operations else 1
        operation = Operation(max(self.current, before), self._nodes.first_node(), flops)
        self.operations.append(operation)

        if depth == CONSTANT:
            pending = [earlier for value in values for earlier in value.operations]
            made = Value(CONSTANT, weights=weights, operations=(*pending, index))
        else:
            depth = self._settle(func, depth, weights)
            operation.layer = max(depth, 1)
            for value, tensor in zip(values, inputs, strict=True):
                _note_use(value, tensor, operation.layer)
                for earlier in value.operations:
                    self.operations[earlier].layer = operation.layer
                value.operations = ()
                if value.depth != CONSTANT:
                    operation.moved_bytes += _size_bytes(tensor)
            made = Value(depth, operation.layer)

        read = {tensor.untyped_storage()._cdata for tensor in inputs}
        fresh: set[int] = set()
        written = 0
        for tensor in outputs:
            storage = tensor.untyped_storage()
            seen = storage._cdata in read and not func._schema.is_mutable
            if seen or storage._cdata in fresh:  # a view, or a second one of the same output
                continue
            fresh.add(storage._cdata)
            self._hold(
                tensor,
                Value(
                    made.depth, made.made_in, storage.nbytes(), {}, made.weights, made.operations
                ),
            )
            written += _size_bytes(tensor)
        # What gives but views of its inputs has read nothing.
        operation.moved_bytes = operation.moved_bytes + written if written else 0

    def _settle(self, func: Any, depth: int, weights: frozenset[int]) -> int:
        """Depth of an operation on activations of `depth` and on `weights`, which find a home."""
        new = sorted(weights - self.home.keys())
        borne = [w for w in new if w in self.matrices] if func._overloadpacket in WEIGHTED else []
        if self.by_modules:
            depth = max(depth, self.current)
        else:
            depth = max([depth + bool(borne), *(self.home[w] for w in weights if w in self.home)])
        for weight in new:
            self.home[weight] = max(depth, 1)
        if borne:
            self.bearers.setdefault(max(depth, 1), []).append(_bearer(self.names[borne[0]]))
        return depth

    def _running_operation(self) -> Operation:
        if self._owners is None:
            self._owners = NodeOwners([operation.first_node for operation in self.operations])
        node = torch._C._current_autograd_node()
        return self.operations[self._owners[node._sequence_nr()] if node else -1]

    def _value(self, tensor: torch.Tensor) -> Value:
        held = self._held.get(tensor.untyped_storage()._cdata)
        return held[1] if held else Value(CONSTANT)

    def _hold(self, tensor: torch.Tensor, value: Value) -> None:
        # The weak reference keeps the storage's address from being used again, not its memory.
        storage = tensor.untyped_storage()
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self._held[storage._cdata] = (reference, value)
        self.values.append(value)


def _bearer(parameter: str) -> str:
    """Name of the module whose weight a parameter is, else of the parameter itself."""
    for ending in (".parametrizations.weight.original", ".parametrizations.weight.original0"):
        parameter = parameter.removesuffix(ending)
    return parameter.removesuffix(".weight")


def _note_use(value: Value, tensor: torch.Tensor, layer: int) -> None:
    if value.depth != CONSTANT:
        view = (tensor.storage_offset(), tensor.shape, tensor.stride())
        last = value.uses.get(view, (0, 0))[1]
        value.uses[view] = (_size_bytes(tensor), max(last, layer))


def _flops(packet: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> int:
    """FLOPs of an operation as PyTorch counts them; 0 for one without weights to multiply by.

    Deviation: PyTorch 2.13 counts the weights' gradient of a convolution in groups as many times
    over as there are groups.
    """
    formula = flop_registry.get(packet)
    if formula is None:
        return 0
    flops = int(formula(*args, **kwargs, out_val=out))
    if packet is _aten.convolution_backward and args[9] > 1 and args[10][1]:
        of_weights = int(formula(*args[:10], (False, True, False), out_val=out))
        flops -= of_weights - of_weights // args[9]
    return flops


def _size_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _patch_bytes(args: Sequence[Any], out: torch.Tensor) -> int:
    """Bytes of a convolution's input unfolded, a patch per output pixel; a 1x1 kernel needs none.

    A transposed convolution unfolds its output instead: a patch per input pixel.
    """
    image, weight, transposed, groups = args[0], args[1], args[6], args[8]
    patch = math.prod(weight.shape[1:])
    if patch == weight.shape[1]:
        return 0
    pixels = image if transposed else out
    values = len(pixels) * math.prod(pixels.shape[2:]) * patch * groups
    return int(values * pixels.element_size())


def _tensors(arguments: Sequence[Any]) -> Iterator[torch.Tensor]:
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _tensors(argument)


def _refuse_numbers(func: Any, tensors: list[torch.Tensor]) -> None:
    asks = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
    if any(tag in func.tags for tag in asks) and any(tensor.is_meta for tensor in tensors):
        raise RuntimeError(f"{func} asks a meta tensor for its numbers")

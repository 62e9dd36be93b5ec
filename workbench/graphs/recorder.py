"""Records the operators of a module while it runs once, below autograd.

On meta tensors (shapes only, no numbers), so any Python in `forward` is followed, except where it
asks for a number; or for real.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from workbench.graphs.autograd_nodes import NodeCounter, owner
from workbench.graphs.graph import Operator, OperatorGraph, Parameter, Value, View

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


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows one forward pass, and the FLOPs of one backward pass."""

    def __init__(
        self,
        parameters: Mapping[str, torch.nn.Parameter],
        inputs: Sequence[Tensor],
        *,
        by_modules: bool,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[Operator] = []
        self.modules: list[str] | None = [] if by_modules else None  # called so far
        self.in_backward = False
        self._parameters = tuple(
            Parameter(name, _size_bytes(one), one.dim() > 1) for name, one in parameters.items()
        )
        self._values: list[Value] = []
        # The weak reference keeps a storage's address from being used again, not its memory.
        self._held: dict[int, tuple[StorageWeakRef, int]] = {}  # storage -> what it holds now
        self._backward_flops: Counter[int] = Counter()
        self._first_nodes: list[int] = []
        self._nodes = NodeCounter()
        for index, parameter in enumerate(parameters.values()):
            held = self._held.get(parameter.untyped_storage()._cdata)
            before = self._values[held[1]].parameters if held else frozenset[int]()
            self._hold(parameter, "parameter", before | {index})
        for tensor in inputs:
            self._hold(tensor, "input")

    def graph(self, outputs: Sequence[Tensor]) -> OperatorGraph:
        """All that was recorded of a module that gave `outputs`."""
        shown = tuple(map(self.view, outputs))
        return OperatorGraph(
            self._parameters,
            tuple(self._values),
            tuple(self.operators),
            shown,
            self._backward_flops,
            None if self.modules is None else tuple(self.modules),
        )

    def view(self, tensor: Tensor) -> View:
        """Return what a tensor shows now."""
        held = self._held.get(tensor.untyped_storage()._cdata)
        value = held[1] if held else self._hold(tensor, "constant")
        shape, strides = tuple(tensor.shape), tensor.stride()
        return View(value, int(tensor.storage_offset()), shape, strides, _size_bytes(tensor))

    def storage(self, view: View) -> int:
        """Number of the storage that a view is of."""
        return self._values[view.value].storage

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        tensors = tensors_in((args, kwargs))
        _refuse_numbers(func, tensors)
        out = func(*args, **kwargs)
        flops = _flops(func._overloadpacket, args, kwargs, out)
        if self.in_backward:
            if flops:
                self._backward_flops[self._running_operator()] += flops
        else:
            self._add(func, args, tensors, out, flops)
        return out

    def _add(
        self, func: Any, args: tuple[Any, ...], inputs: list[Tensor], out: Any, flops: int
    ) -> None:
        self._first_nodes.append(self._nodes.first_node())
        reads = tuple(map(self.view, inputs))
        read = {tensor.untyped_storage()._cdata for tensor in inputs}
        makes: dict[int, View] = {}
        for tensor in tensors_in(out):
            key = tensor.untyped_storage()._cdata
            is_view = key in read and not func._schema.is_mutable
            if not is_view and key not in makes:
                self._hold(tensor, "operator")
                makes[key] = self.view(tensor)
        packet = func._overloadpacket
        self.operators.append(
            Operator(
                packet.__name__,
                packet in WEIGHTED,
                reads,
                tuple(makes.values()),
                flops,
                _unfolded_bytes(args, out) if packet is _aten.convolution else 0,
                len(self.modules or ()),
            )
        )

    def _running_operator(self) -> int:
        node = torch._C._current_autograd_node()
        return owner(node, self._first_nodes) if node else len(self.operators) - 1

    def _hold(self, tensor: Tensor, origin: Any, parameters: frozenset[int] = frozenset()) -> int:
        """Note that a storage holds a new value from now on; its number."""
        storage = tensor.untyped_storage()
        held = self._held.get(storage._cdata)
        reference = held[0] if held else StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        number, index = (
            self._values[held[1]].storage if held else len(self._held),
            len(self._values),
        )
        self._held[storage._cdata] = (reference, index)
        self._values.append(Value(origin, number, storage.nbytes(), parameters))
        return index


def tensors_in(tree: object) -> list[Tensor]:
    """Tensors in nested tuples, lists and dicts."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _flops(packet: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> int:
    """FLOPs of an operator as PyTorch counts them; 0 for one without weights to multiply by.

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


def _size_bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _unfolded_bytes(args: Sequence[Any], out: Tensor) -> int:
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


def _refuse_numbers(func: Any, tensors: list[Tensor]) -> None:
    asks = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
    if any(tag in func.tags for tag in asks) and any(tensor.is_meta for tensor in tensors):
        raise RuntimeError(f"{func} asks a meta tensor for its numbers")

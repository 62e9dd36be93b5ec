"""Records the operators of a module while it runs once, below autograd.

On meta tensors (shapes only, no numbers), so any Python in `forward` is followed, except where it
asks for a number; or for real.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from workbench.profiles.autograd_nodes import NodeCounter, owner
from workbench.profiles.graph import Operand, Operator, OperatorGraph, Parameter, Phase, Value, View
from workbench.profiles.private import (
    CHECKPOINT_NODE,
    FakeTensor,
    OpOverload,
    current_node,
    sequence_number,
    storage_key,
)

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
    """Records one forward pass, and the FLOPs of one backward pass."""

    def __init__(
        self,
        parameters: Mapping[str, torch.nn.Parameter],
        inputs: Sequence[Tensor],
        *,
        names: Sequence[str] = (),
        by_modules: bool = False,
        others: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> None:
        """Begin with parameters, inputs with their names, and other tensors of a module."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase: Phase = "forward"
        self.operators: list[Operator] = []
        self.attention_calls: list[range] = []  # operators of one call of PyTorch's attention each
        self.modules: list[str] | None = [] if by_modules else None  # called so far
        self.in_backward = False
        self._parameters = tuple(
            Parameter(name, _size_bytes(parameter), parameter.dim() > 1, parameter.requires_grad)
            for name, parameter in parameters.items()
        )
        self._values: list[Value] = []
        # The weak reference keeps a storage's address from being used again, not its memory.
        self._held: dict[int, tuple[StorageWeakRef, int]] = {}  # storage -> what it holds now
        self._literals: dict[int, Tensor] = {}
        self._backward_flops: Counter[int] = Counter()
        self._first_nodes: list[int] = []
        self._of_nodes: list[int] = []  # operators that these nodes belong to
        self._again: dict[int, int] = {}  # node that runs a forward pass again -> next operator
        self._nodes = NodeCounter()
        for index, (name, parameter) in enumerate(parameters.items()):
            held = self._held.get(storage_key(parameter))
            before = self._values[held[1]].parameters if held else frozenset[int]()
            self._hold(parameter, "parameter", before | {index}, name)
        for name, tensor in others.items():
            self._hold(tensor, "constant", name=name)
        for number, tensor in enumerate(inputs):
            known = names[number] if names else ""
            self._hold(tensor, "input", name=known or f"input {number}")
        self._inputs = tuple(map(self.view, inputs))

    def graph(self, outputs: Sequence[Tensor]) -> OperatorGraph:
        """Return the graph of a module that returned `outputs`."""
        shown = tuple(map(self.view, outputs))
        return OperatorGraph(
            self._parameters,
            tuple(self._values),
            tuple(self.operators),
            shown,
            self._inputs,
            self._backward_flops,
            None if self.modules is None else tuple(self.modules),
            literals=self._literals,
            attention_calls=tuple(self.attention_calls),
        )

    def view(self, tensor: Tensor) -> View:
        """Return the view that a tensor is now."""
        held = self._held.get(storage_key(tensor))
        value = held[1] if held else self._hold(tensor, "constant")
        if held is None and type(tensor) is Tensor and not tensor.is_meta:
            self._literals[value] = tensor  # a number in the module's code, as it is
        return view_of(tensor, value, int(tensor.storage_offset()))

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
        if func is _aten.view_as_real.default and args[0].is_conj():  # after a write in place
            with self:
                args = (args[0].resolve_conj(),)
        tensors = tensors_in((args, kwargs))
        _refuse_numbers(func, tensors)
        out = self._called(func, args, kwargs)
        if func.namespace == "prim":  # asks for a device
            return out
        flops = _flops(func._overloadpacket, args, kwargs, out)
        node = self._node()
        if node or self.in_backward:
            at = self._owner(node, func)
            if flops:
                self._backward_flops[at] += flops
        if not self.in_backward:
            phase = "backward" if node else self.phase
            if phase == "forward":
                self._first_nodes.append(self._nodes.first_node())
                self._of_nodes.append(len(self.operators))
            self._add(func, (args, kwargs), out, flops, phase)
        return out

    def _node(self) -> Node | None:
        """The autograd node whose gradient is being computed."""
        return current_node()

    def _called(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)

    def _add(self, func: Any, arguments: Any, out: Any, flops: int, phase: Phase) -> None:
        inputs = tensors_in(arguments)
        out = returned(func, arguments, out)
        reads = tuple(map(self.view, inputs))
        numbers = iter(range(len(inputs)))
        read = {storage_key(tensor) for tensor in inputs}
        makes: dict[int, View] = {}
        for tensor in tensors_in(out):
            key = storage_key(tensor)
            is_view = key in read and not writes(func)
            if not is_view and key not in makes:
                self._hold(tensor, "operator")
                makes[key] = self.view(tensor)
        packet = func._overloadpacket
        results = tuple(map(self.view, tensors_in(out)))
        self.operators.append(
            Operator(
                packet.__name__,
                reads,
                tuple(makes.values()),
                results,
                func,
                tree_map_only(Tensor, lambda _: Operand(next(numbers)), arguments),
                phase,
                flops,
                _unfolded_bytes(arguments[0], out) if packet is _aten.convolution else 0,
                len(self.modules or ()),
                packet in WEIGHTED,
                _may_overwrite(func, reads, results),
                torch.Tag.nondeterministic_seeded in func.tags,
            )
        )

    def _owner(self, node: Node | None, func: Any) -> int:
        """Number of the forward operator that a running operator of the backward pass belongs to.

        A re-entrant checkpoint runs its forward pass again, with nodes of its own.
        """
        if node is None:
            return len(self.operators) - 1
        entry = owner(node, self._first_nodes)
        if not isinstance(node, CHECKPOINT_NODE):
            return self._of_nodes[entry]
        number = sequence_number(node)
        if self._first_nodes[entry] < number and entry + 1 < len(self._first_nodes):
            entry += 1  # its first operator also follows the nodes of checkpoints within it
        at = self._again.get(number, self._of_nodes[entry])
        if at == len(self.operators) or self.operators[at].function is not func:
            return self._of_nodes[entry]
        self._again[number] = at + 1
        self._first_nodes.append(self._nodes.first_node())
        self._of_nodes.append(at)
        return at

    def _hold(
        self,
        tensor: Tensor,
        origin: Any,
        parameters: frozenset[int] = frozenset(),
        name: str = "",
    ) -> int:
        """Note that a storage holds a new value from now on; return its number."""
        storage = tensor.untyped_storage()
        held = self._held.get(storage_key(tensor))
        reference = held[0] if held else StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        number = self._values[held[1]].storage if held else len(self._held)
        index = len(self._values)
        self._held[storage_key(tensor)] = (reference, index)
        self._values.append(Value(origin, number, storage.nbytes(), parameters, name))
        return index


def view_of(tensor: Tensor, value: int, offset: int) -> View:
    """A tensor as a view of a value."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    form = (tuple(tensor.shape), tensor.stride(), _size_bytes(tensor), dtype)
    return View(value, offset, *form, tensor.is_conj(), tensor.is_neg())


def tensors_in(tree: object) -> list[Tensor]:
    """Tensors in nested tuples, lists and dicts, and in objects that have `logits`."""
    tensors: list[Tensor] = []
    for leaf in tree_leaves(tree):
        if isinstance(leaf, Tensor):
            tensors.append(leaf)
        elif isinstance(getattr(leaf, "logits", None), Tensor):
            names: Any = getattr(leaf, "__dict__", None) or getattr(leaf, "__slots__", ())
            held = (getattr(leaf, name) for name in names)
            tensors += (value for value in held if isinstance(value, Tensor))
    return tensors


def writes(func: Any) -> bool:
    """Whether an operator of PyTorch changes numbers that it reads, not only how they are seen."""
    return func._schema.is_mutable and torch.Tag.inplace_view not in func.tags


def takes_pivots(function: Any) -> bool:
    """Whether an operator reads rows of a matrix by number, counted from one."""
    schema = getattr(function, "_schema", None)
    return schema is not None and any("pivots" in argument.name for argument in schema.arguments)


def returned(func: Any, arguments: Any, out: Any) -> Any:
    """Results of an operator that count: some return more, or more on shapes alone."""
    if not isinstance(func, OpOverload):
        return out
    if func._overloadpacket is _aten.mkldnn_rnn_layer:
        return out[:3]  # without the workspace for gradients
    names = [argument.name for argument in func._schema.arguments]
    if "output_mask" not in names:
        return out
    args, kwargs = arguments
    mask = (dict(zip(names, args, strict=False)) | kwargs)["output_mask"]
    return [result for result, wanted in zip(out, mask, strict=True) if wanted]


def _may_overwrite(func: Any, reads: Sequence[View], results: Sequence[View]) -> frozenset[int]:
    """Numbers of operands in whose exact place an elementwise result may be written."""
    if torch.Tag.pointwise not in func.tags or len(results) != 1:
        return frozenset()
    (made,) = results
    fits = (at for at, read in enumerate(reads) if replace(read, value=made.value) == made)
    return seen_one_way(fits, reads)


def seen_one_way(chosen: Iterable[int], reads: Sequence[View]) -> frozenset[int]:
    """Drop operands whose value another operand shows otherwise: it would be read overwritten."""
    ways = Counter(read.value for read in set(reads))
    return frozenset(at for at in chosen if ways[reads[at].value] == 1)


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
    if func is _aten.index.Tensor and not any(_is_mask(index) for index in tensors[1:]):
        return
    without_numbers = any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors)
    if without_numbers and any(tag in func.tags for tag in asks):
        raise RuntimeError(f"{func} asks a meta tensor for its numbers")


def _is_mask(index: Tensor) -> bool:
    return index.dtype in (torch.bool, torch.uint8)

"""Recorder of the allocations of a model's layers, forward and backward, on fake tensors."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from workbench.memory.measured import allocation_changes
from workbench.memory.tracing.functional import default_loss, faked
from workbench.pipelines.recording import INPUTS, Recording
from workbench.profiles.copies import copied_with
from workbench.profiles.inputs import Inputs, make_inputs
from workbench.profiles.private import (
    FakeTensorMode,
    current_node,
    next_sequence_number,
    sequence_number,
    storage_key,
    unset_fake_temporarily,
)
from workbench.profiles.recorder import tensors_in
from workbench.profiles.recording import learning
from workbench.training.pieces import Pieces
from workbench.utils.checks import UserError


def record(name: str, pieces: Pieces, inputs: Inputs, samples: int) -> Recording:
    """Record one pass of a batch, layer by layer in training mode, its loss, and the way back.

    The module is not touched. Raises UserError where it cannot run on fake tensors.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        module = copied_with(name, pieces.module, faked).train()
        tensors = tuple(map(faked, make_inputs(inputs, samples, "meta")))
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
    layers = pieces.on(module)
    parameters = dict(module.named_parameters())
    trained = {key: _bytes(tensor) for key, tensor in parameters.items() if tensor.requires_grad}
    others = {key: _bytes(tensor) for key, tensor in parameters.items() if key not in trained}
    others |= {key: _bytes(tensor) for key, tensor in module.named_buffers()}
    ledger = _Ledger(
        [*parameters.values(), *(p.grad for p in parameters.values()), *module.buffers()]
    )
    try:
        with learning(), mode, ledger:
            crossing = [ledger.numbers(tensors)]
            gradients: list[tuple[int, ...]] = [()]
            for layer in range(1, len(layers) + 1):
                ledger.enter(layer)
                tensors = layers.run(layer, layer, tensors)
                crossing.append(ledger.numbers(tensors))
                gradients.append(ledger.numbers([t for t in tensors if t.requires_grad]))
            ledger.enter(len(layers) + 1)
            outputs = tuple(tensor for tensor in tensors if tensor.requires_grad)
            del tensors
            backward = ledger.count
            if outputs:
                of_loss = _gradients(outputs)
                ledger.turn()
                torch.autograd.backward(outputs, of_loss)
    except (RuntimeError, TypeError) as error:
        raise UserError(f"{name} does not run on fake tensors: {error}") from error
    used = pieces.calls.names_used
    return ledger.recording(
        backward,
        crossing,
        gradients,
        [(_used(trained, names), _used(others, names)) for names in used],
    )


def _gradients(outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Gradients of a loss by the outputs, as `workbench.training.passes.loss_gradient` has them."""
    detached = tuple(output.detach().requires_grad_() for output in outputs)
    first = detached[0]
    shape = first.shape[:-1] if first.dim() > 1 else first.shape
    labels = torch.zeros(shape, dtype=torch.int64, device=first.device)
    return torch.autograd.grad(default_loss(detached, labels), detached)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _used(sizes: Mapping[str, int], names: frozenset[str]) -> dict[str, int]:
    return {name: sizes[name] for name in sorted(names & sizes.keys())}


_WITH_WORKSPACE = frozenset(
    (torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default)
)
"""Operators whose kernels allocate copies of their operands, in other layouts of memory."""


def _zeros(fake: Tensor) -> Tensor:
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype).zero_()


class _Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Storages that operators make, with their layers, and when they are freed.

    Operators that make none, such as views, are passed over.
    """

    def __init__(self, outside: Sequence[Tensor | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0  # operators so far
        self._outside = {storage_key(tensor) for tensor in outside if tensor is not None}
        self._kernels: dict[str, list[int]] = {}  # allocations by operator and form of operands
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self._layer = INPUTS
        self._in_backward = False
        self._nodes: list[int] = []  # first node of autograd of each layer, from 1
        self._sizes: list[int] = []
        self._layers: list[int] = []
        self._born: list[int] = []
        self._freed: list[int] = []
        self._operator_layers: list[int] = []

    def enter(self, layer: int) -> None:
        """Begin a layer's forward pass, or the loss."""
        self._layer = layer
        self._nodes.append(next_sequence_number())

    def turn(self) -> None:
        """Begin the backward pass."""
        self._in_backward = True

    def numbers(self, tensors: Sequence[Tensor]) -> tuple[int, ...]:
        """Storages of tensors, each once; those of the module's own tensors are left out."""
        known = (self._number(tensor) for tensor in tensors)
        return tuple(dict.fromkeys(number for number in known if number is not None))

    def _number(self, tensor: Tensor) -> int | None:
        key = storage_key(tensor)
        if key in self._outside:
            return None
        if key not in self._alive:
            storage = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
            self._alive[key] = storage, len(self._sizes)
            self._add(tensor.untyped_storage().nbytes())
        return self._alive[key][1]

    def _add(self, size_bytes: int) -> None:
        self._sizes.append(size_bytes)
        self._layers.append(self._layer)
        self._born.append(self.count)
        self._freed.append(-1)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        made = tensors_in(result)
        if {*map(storage_key, made)} - self._outside - self._alive.keys():
            changes = self._changes(func, args, kwargs or {}) if func in _WITH_WORKSPACE else []
            for key, (storage, number) in list(self._alive.items()):
                if storage.expired():  # type: ignore[no-untyped-call]
                    self._freed[number] = self.count
                    del self._alive[key]
            if self._in_backward:
                self._layer = self._of_node()
            self._allocate(changes)
            self.numbers(made)
            self._operator_layers.append(self._layer)
            self.count += 1
        return result

    def _allocate(self, changes: Sequence[int]) -> None:
        """Storages of a kernel until it ends; each allocation is an operator of its own."""
        alive: list[int] = []
        for change in changes:
            if change > 0:
                alive.append(len(self._sizes))
                self._add(change)
                self._operator_layers.append(self._layer)
                self.count += 1
            else:
                number = next(each for each in reversed(alive) if self._sizes[each] == -change)
                self._freed[number] = self.count
                alive.remove(number)
        for number in alive:  # its results
            self._freed[number] = self.count

    def _changes(self, func: Any, args: Any, kwargs: dict[str, Any]) -> list[int]:
        """Allocations of a kernel, run once for each form of its operands, on zeros."""

        def form(tensor: Tensor) -> object:
            return tuple(tensor.shape), tensor.stride(), tensor.dtype

        kind = repr((func, tree_map_only(Tensor, form, (args, kwargs))))
        if kind not in self._kernels:
            with unset_fake_temporarily(), torch.no_grad():
                args, kwargs = tree_map_only(Tensor, _zeros, (args, kwargs))
                kept: list[Any] = []
                (self._kernels[kind],) = allocation_changes(
                    [lambda: kept.append(func(*args, **kwargs))]
                )
        return self._kernels[kind]

    def _of_node(self) -> int:
        """Layer of the running node of autograd; for a sum of gradients, of the node before."""
        node: Node | None = current_node()
        if node is None:
            return self._layer
        number = sequence_number(node)
        if number >= self._nodes[-1]:
            return self._layer
        return max(1, bisect_left(self._nodes, number + 1))

    def recording(
        self,
        backward: int,
        crossing: Sequence[tuple[int, ...]],
        gradients: Sequence[tuple[int, ...]],
        tensors: Sequence[tuple[dict[str, int], dict[str, int]]],
    ) -> Recording:
        """Return the recording."""
        freed = [self.count if each < 0 else each for each in self._freed]
        return Recording(
            np.array(self._sizes, float),
            np.array(self._layers),
            np.array(self._born),
            np.array(freed),
            np.array(self._operator_layers),
            backward,
            tuple(crossing),
            tuple(gradients),
            tuple(tensors),
        )

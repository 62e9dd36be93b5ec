"""A module whose trained parameters are views of one vector, their gradients of another.

The vector follows the chain of `workbench.profiles.profile_model`: layer by layer, within a layer
tensor by tensor as the module registers them. So what a plan transmits between two cuts is one
slice; that of a layer whose parameters are all frozen is empty. Layers are numbered from 1, as in
plans.

Buffers (running statistics of batch normalisation) are no part of the vector: profiles do not
count them and plans do not send them, as in DynaComm and most parameter servers. Each worker's
replica gathers its own in training mode; to evaluate the common model, take one worker's or the
workers' average.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from workbench.profiles import By, find_layers, follow
from workbench.profiles.inputs import InputShape
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Layout:
    """Layers and tensors of a flat vector, first layer first.

    Attributes
    ----------
    layers
        Names, as in the model's profile.
    tensors
        Name and shape of each trained tensor, by layer. A tied weight is at its first use only.
    item_bytes
        Bytes of one element.
    """

    layers: tuple[str, ...]
    tensors: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]
    item_bytes: int

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First element of each layer; last, the number of all elements."""
        sizes = (sum(prod(shape) for _, shape in layer) for layer in self.tensors)
        return tuple(accumulate(sizes, initial=0))

    @property
    def size(self) -> int:
        """Elements of the whole vector."""
        return self.starts[-1]

    @property
    def param_bytes(self) -> tuple[int, ...]:
        """Bytes of each layer."""
        return tuple((b - a) * self.item_bytes for a, b in pairwise(self.starts))

    def __len__(self) -> int:
        return len(self.layers)

    def layers_slice(self, first: int, last: int) -> slice:
        """Slice of the layers `first` to `last`, both included, the first layer being 1."""
        if not 1 <= first <= last <= len(self):
            raise UserError(f"layers {first} to {last} are not within 1 to {len(self)}")
        return slice(self.starts[first - 1], self.starts[last])

    @cached_property
    def tensor_slices(self) -> dict[str, slice]:
        """Slice of each tensor by the name it has in the module."""
        named = [(name, prod(shape)) for layer in self.tensors for name, shape in layer]
        starts = accumulate((size for _, size in named), initial=0)
        return {
            name: slice(start, start + size)
            for (name, size), start in zip(named, starts, strict=False)
        }


def model_layout(
    module: torch.nn.Module,
    input_shape: InputShape,
    *,
    input_dtype: str | None = None,
    by: By = "graph",
) -> Layout:
    """Return the layout of a module, by tracing it on meta tensors; it is not changed.

    Arguments are those of `workbench.profiles.profile_model`, whose layers these are.
    """
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    kinds = {parameter.dtype for parameter in named.values()}
    if len(kinds) > 1:
        raise UserError(
            f"{type(module).__name__} has parameters of types "
            f"{', '.join(sorted(map(str, kinds)))}; one flat vector holds one type, so convert it "
            "first: module.float()"
        )
    layers = find_layers(follow(module, input_shape, input_dtype=input_dtype, by=by))
    tensors = tuple(
        tuple((tensor.name, tuple(named[tensor.name].shape)) for tensor in layer)
        for layer in layers.trained
    )
    (kind,) = kinds
    return Layout(layers.names, tensors, kind.itemsize)


class ParameterView(NamedTuple):
    """A parameter that is a view, and the module's own table that holds it under `key`."""

    owner: dict[str, torch.nn.Parameter | None]
    key: str
    parameter: torch.nn.Parameter
    address: int
    gradient: torch.Tensor | None  # as PyTorch types what every parameter here has


@dataclass(frozen=True, eq=False)
class FlatModel:
    """A module and the two vectors that its trained parameters and their gradients are views of.

    Writing to a slice of `parameters` changes the module at once, and `gradient_step` leaves its
    gradients in `gradients`; nothing is copied. Frozen parameters (``requires_grad`` is false when
    the module is flattened) stay the module's own, and so do buffers. Do not convert the module,
    move it or give its parameters other tensors: `gradient_step` refuses a module that has left its
    vectors.

    Attributes
    ----------
    parameters, gradients
        One-dimensional and contiguous, of ``layout.size`` elements. Where a parameter takes no
        part, its gradient stays zero.
    views
        The module's trained parameters, a shared one at each of its places.
    frozen
        Its other parameters.
    """

    module: torch.nn.Module
    layout: Layout
    parameters: torch.Tensor
    gradients: torch.Tensor
    views: tuple[ParameterView, ...] = field(repr=False)
    frozen: tuple[torch.nn.Parameter, ...] = field(repr=False)

    def __reduce__(self) -> tuple[Callable[..., FlatModel], tuple[object, ...]]:
        """Pickle the module; in another process its parameters are views again."""
        return attach, (self.module, self.layout)

    @property
    def device(self) -> torch.device:
        """Device of module and vectors."""
        return self.parameters.device

    def replica(self) -> FlatModel:
        """Return a copy with a module, buffers and vectors of its own."""
        return attach(copied(self.module), self.layout)

    def adopt(self, other: torch.nn.Module) -> None:
        """Take the values of the trained parameters from a module of the same structure."""
        named = dict(other.named_parameters())
        for name, where in self.layout.tensor_slices.items():
            self.parameters[where].copy_(named[name].detach().reshape(-1))

    def check_attached(self) -> None:
        """Refuse a module whose parameters are no longer views; put lost gradients back."""
        if any(parameter.requires_grad for parameter in self.frozen):
            raise UserError(
                f"{type(self.module).__name__} has parameters that were frozen when it was "
                "flattened and are not now, so that they would never be updated; flatten it again"
            )
        for view in self.views:
            held = view.owner.get(view.key)
            if held is not view.parameter or held.data_ptr() != view.address:
                raise UserError(
                    f"{type(self.module).__name__} was converted, moved or given another "
                    f"{view.key!r}, so that its parameters are no longer views of the flat "
                    "vector; flatten it again"
                )
            if held.grad is not view.gradient:
                held.grad = view.gradient


def flatten(
    module: torch.nn.Module,
    input_shape: InputShape,
    *,
    input_dtype: str | None = None,
    by: By = "graph",
) -> FlatModel:
    """Lay a module's trained parameters into one vector, in the order of its profile's layers.

    Values stay, but these parameters become views of the new vector. Arguments are those of
    `workbench.profiles.profile_model`, errors those of `model_layout`.
    """
    return attach(module, model_layout(module, input_shape, input_dtype=input_dtype, by=by))


def copied(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of a user's module."""
    try:
        return copy.deepcopy(module)
    except Exception as error:
        reason = str(error).partition(". ")[0]
        raise UserError(
            f"{type(module).__name__} cannot be copied for each node ({reason}): build it so that "
            "copy.deepcopy takes it, without tensors that were computed with gradients, as the old "
            "torch.nn.utils.weight_norm has them"
        ) from error


def attach(module: torch.nn.Module, layout: Layout) -> FlatModel:
    """Lay a module's trained parameters into one vector, in the order of a layout of theirs."""
    import torch

    named = dict(module.named_parameters())
    trained = {name: named[name] for name in layout.tensor_slices}
    first = next(iter(trained.values()))
    flat = torch.empty(layout.size, dtype=first.dtype, device=first.device)
    gradients = torch.zeros_like(flat)
    with torch.no_grad():
        for name, parameter in trained.items():
            where = layout.tensor_slices[name]
            flat[where].copy_(parameter.reshape(-1))
            parameter.data = flat[where].view(parameter.shape)
            parameter.grad = gradients[where].view(parameter.shape)
    known = set(trained.values())
    frozen = tuple(parameter for name, parameter in named.items() if name not in trained)
    views = tuple(
        ParameterView(part._parameters, key, parameter, parameter.data_ptr(), parameter.grad)
        for part in module.modules()
        for key, parameter in part._parameters.items()
        if parameter in known
    )
    return FlatModel(module, layout, flat, gradients, views, frozen)


def get_buffers(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of a module's buffers by name."""
    return {name: buffer.detach().clone() for name, buffer in module.named_buffers()}


def set_buffers(module: torch.nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Write buffers into a module that has the same ones."""
    own = dict(module.named_buffers())
    shapes, others = (
        {(name, tuple(buffer.shape)) for name, buffer in buffers.items()}
        for buffers in (own, values)
    )
    if wrong := sorted({name for name, _ in shapes ^ others}):
        raise UserError(f"buffers of another module: {', '.join(wrong)} are not in both alike")
    for name, buffer in own.items():
        buffer.detach().copy_(values[name])


def average_buffers(sets: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Average the buffers of several replicas, in their order; of integers take the largest."""
    import torch

    if not sets or any(buffers.keys() != sets[0].keys() for buffers in sets):
        raise UserError("buffers of at least one replica, all of the same module, are averaged")
    averaged: dict[str, torch.Tensor] = {}
    for name, first in sets[0].items():
        stacked = torch.stack([buffers[name] for buffers in sets])
        is_whole = not (first.is_floating_point() or first.is_complex())
        averaged[name] = stacked.amax(0) if is_whole else stacked.mean(0)
    return averaged

"""A module whose trained parameters are views of one vector, their gradients of another."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.errors import UserError
from workbench.graphs import By
from workbench.training.layout import Layout, model_layout

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class ParameterView:
    """Where a module holds a parameter that is a view, and the view.

    Looked up in the module's own table, which is many times faster than walking the module.
    """

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
    the module is flattened) stay the module's own, and so do buffers, of which each replica keeps
    its own; see `workbench.training.average_buffers`.

    Attributes
    ----------
    module
        Used as it is. Do not convert it, move it or give its parameters other tensors:
        `gradient_step` refuses a module that has left its vectors.
    layout
        Slices by layer and tensor.
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

    @property
    def device(self) -> torch.device:
        """Device of module and vectors."""
        return self.parameters.device

    def replica(self) -> FlatModel:
        """Return a copy with a module, buffers and vectors of its own."""
        return _attach(copy.deepcopy(self.module), self.layout)

    def adopt(self, other: torch.nn.Module) -> None:
        """Take the values of the trained parameters from a module of the same structure."""
        named = dict(other.named_parameters())
        for name, where in self.layout.tensor_slices.items():
            self.parameters[where].copy_(named[name].detach().reshape(-1))

    def check_attached(self) -> None:
        """Refuse a module whose parameters are no longer views; put lost gradients back.

        Raises ValueError: a parameter was replaced, has other memory than its slice, or is no
        longer frozen.
        """
        if any(one.requires_grad for one in self.frozen):
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
    input_shape: Sequence[int] | Sequence[Sequence[int]],
    *,
    input_dtype: str = "float32",
    by: By = "graph",
) -> FlatModel:
    """Lay a module's trained parameters into one vector, in the order of its profile's layers.

    Values stay, but these parameters become views of the new vector. Arguments are those of
    `workbench.profiles.profile_model`, errors those of `model_layout`.
    """
    return _attach(module, model_layout(module, input_shape, input_dtype=input_dtype, by=by))


def _attach(module: torch.nn.Module, layout: Layout) -> FlatModel:
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
    frozen = tuple(one for name, one in named.items() if name not in trained)
    views = tuple(
        ParameterView(part._parameters, key, parameter, parameter.data_ptr(), parameter.grad)
        for part in module.modules()
        for key, parameter in part._parameters.items()
        if parameter in known
    )
    return FlatModel(module, layout, flat, gradients, views, frozen)

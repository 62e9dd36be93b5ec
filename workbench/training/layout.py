"""Position of each layer of a model in one flat vector of all parameters that are trained.

The vector follows the chain of `workbench.profiles.profile_model`: layer by layer, within a layer
tensor by tensor as the module registers them. So what a plan transmits between two cuts is one
slice; that of a layer whose parameters are all frozen is empty. Layers are numbered from 1, as in
plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING

from workbench.errors import UserError
from workbench.graphs import By, find_layers, follow

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
        """Slice of the layers `first` to `last`, both included, the first layer being 1.

        Raises ValueError: no such layers.
        """
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
    input_shape: Sequence[int] | Sequence[Sequence[int]],
    *,
    input_dtype: str = "float32",
    by: By = "graph",
) -> Layout:
    """Return the layout of a module, by tracing it on meta tensors; it is not changed.

    Arguments are those of `workbench.profiles.profile_model`, whose layers these are.

    Raises ValueError: as `profile_model` does; also for trained parameters of different types,
    which cannot share one.
    """
    named = {name: one for name, one in module.named_parameters() if one.requires_grad}
    kinds = {parameter.dtype for parameter in named.values()}
    if len(kinds) > 1:
        raise UserError(
            f"{type(module).__name__} has parameters of types "
            f"{', '.join(sorted(map(str, kinds)))}; one flat vector holds one type, so convert it "
            "first: module.float()"
        )
    layers = find_layers(follow(module, input_shape, input_dtype=input_dtype, by=by))
    tensors = tuple(
        tuple((one.name, tuple(named[one.name].shape)) for one in layer) for layer in layers.trained
    )
    (kind,) = kinds
    return Layout(layers.names, tensors, kind.itemsize)

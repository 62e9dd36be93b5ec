"""What a module takes in: shapes, checked, and tensors of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.names import choose
from workbench.zoo import MODELS

if TYPE_CHECKING:
    import torch

Shapes = tuple[tuple[int, ...], ...]


def input_shapes(
    model: str | torch.nn.Module, input_shape: Sequence[int] | Sequence[Sequence[int]] | None
) -> Shapes:
    """Shapes of all inputs of one sample, checked; the zoo knows those of its models."""
    if isinstance(model, str):
        known = choose("model", model, MODELS)
        input_shape = known.input_shape if input_shape is None else input_shape
    elif input_shape is None:
        raise ValueError(
            f"input_shape is missing: {type(model).__name__} does not tell the shape of its "
            "input. Give that of one sample, without the batch: input_shape=(3, 224, 224)"
        )
    several = [tuple(part) for part in input_shape if isinstance(part, Sequence)]
    one = tuple(size for size in input_shape if not isinstance(size, Sequence))
    shapes = tuple(several) or (one,)
    for shape in shapes:
        if not all(isinstance(size, int) and size > 0 for size in shape):
            raise ValueError(f"input_shape {input_shape} is not made of positive whole numbers")
    return shapes


def make_inputs(
    shapes: Shapes, batch_size: int, dtype: str, device: str
) -> tuple[torch.Tensor, ...]:
    """Input tensors of a batch: normal noise, zeros for integers."""
    import torch

    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise ValueError(f"unknown input_dtype {dtype!r}; PyTorch's names are right: 'float32'")
    make = torch.randn if kind.is_floating_point or kind.is_complex else torch.zeros
    return tuple(make((batch_size, *shape), dtype=kind, device=device) for shape in shapes)

"""The gradient steps of several replicas as one: a building block, and what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from workbench.training.flat_model import FlatModel
from workbench.training.losses import Loss, cross_entropy
from workbench.training.tensors import as_tensor, check_pairs

if TYPE_CHECKING:
    import torch


def batched_gradients(
    flats: Sequence[FlatModel],
    xs: Sequence[NDArray[Any] | torch.Tensor],
    ys: Sequence[NDArray[Any] | torch.Tensor],
    *,
    loss: Loss = cross_entropy,
) -> list[float]:
    """Write the gradient of each replica on its own batch; return the losses.

    As `gradient_step` on one after the other, but for rounding, in one vectorised pass
    (``torch.func.vmap``). Rounding may turn a ReLU on or off, or move a pooling's maximum, where
    two numbers are equal but for their last bits; the gradient then differs by what that pixel
    adds. Convolutions with weights of their own for each replica are slower on CPUs than one after
    the other (``benchmarks/batched_steps.py``), so nothing here uses it.

    Parameters
    ----------
    flats
        Replicas of one model.
    xs, ys
        Samples and int64 labels, a batch for each, all of one size.
    loss
        Mean over a batch.

    Raises
    ------
    ValueError
        Not as many batches as replicas, batches of several sizes, replicas of several models, or
        a model with buffers or dropout, whose state one pass cannot keep apart.
    """
    import torch

    if not len(flats) == len(xs) == len(ys) or not flats:
        raise ValueError(
            f"{len(flats)} replicas, {len(xs)} batches of samples and {len(ys)} of labels; "
            "give each replica one of both, at least one"
        )
    first = flats[0]
    if any(flat.layout != first.layout for flat in flats):
        raise ValueError("replicas of different models cannot step as one")
    sizes = [check_pairs(x, y) for x, y in zip(xs, ys, strict=True)]
    if len(set(sizes)) > 1:
        raise ValueError(f"batches of {sizes} samples cannot step as one; give all the same size")
    dropouts = torch.nn.modules.dropout._DropoutNd
    if any(True for _ in first.module.buffers()) or any(
        isinstance(part, dropouts) for part in first.module.modules()
    ):
        raise ValueError(
            f"{type(first.module).__name__} has buffers or dropout; use gradient_step for each"
        )
    shapes = [pair for layer in first.layout.tensors for pair in layer]
    slices = first.layout.tensor_slices

    def value(vector: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        named = {name: vector[slices[name]].view(shape) for name, shape in shapes}
        outputs = torch.func.functional_call(first.module, named, (x,))
        return loss(outputs, y)

    vectors = torch.stack([flat.parameters for flat in flats])
    inputs = torch.stack([as_tensor(x, first.device) for x in xs])
    labels = torch.stack([as_tensor(y, first.device) for y in ys])
    gradients, losses = torch.func.vmap(torch.func.grad_and_value(value))(vectors, inputs, labels)
    for flat, gradient in zip(flats, gradients, strict=True):
        flat.check_attached()
        flat.gradients.copy_(gradient)
        for name, parameter in flat.module.named_parameters():
            if not parameter.requires_grad:
                flat.gradients[slices[name]] = 0
    return [float(one) for one in losses]

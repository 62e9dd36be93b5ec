"""One gradient step: forward and backward over a batch."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from workbench.checks import check_whole
from workbench.errors import UserError
from workbench.training.flat_model import FlatModel
from workbench.training.losses import Loss, check_outputs, cross_entropy
from workbench.training.repeatable import STEP, seeded
from workbench.training.tensors import as_tensor, check_pairs

if TYPE_CHECKING:
    import torch


def gradient_step(
    flat: FlatModel,
    x: NDArray[Any] | torch.Tensor,
    y: NDArray[Any] | torch.Tensor,
    *,
    loss: Loss = cross_entropy,
    seed: int | None = None,
) -> float:
    """Write the gradient of the mean loss over a batch into ``flat.gradients``; return the loss.

    ``flat.gradients`` is overwritten, ``flat.parameters`` unchanged. The module runs in its mode.

    Parameters
    ----------
    x, y
        Samples and int64 labels of the batch.
    loss
        Mean over the batch.
    seed
        Of what the module draws at random (dropout); give each step another. With None it draws
        from PyTorch's global generator.

    Raises
    ------
    ValueError
        No model, an empty batch, labels or outputs that do not fit, a module that was moved.
    """
    import torch

    check_pairs(x, y)
    if not isinstance(flat, FlatModel):
        raise UserError(
            f"flat is of type {type(flat).__name__}; give training.flatten(module, input_shape)"
        )
    if seed is not None:
        seed = check_whole("seed", seed, 0)
    flat.check_attached()
    inputs, labels = as_tensor(x, flat.device), as_tensor(y, flat.device)
    flat.gradients.zero_()
    with nullcontext() if seed is None else seeded(seed, STEP), torch.enable_grad():
        value = loss(check_outputs(flat.module(inputs), labels), labels)
        if value.requires_grad:  # not if every parameter is frozen
            value.backward()  # type: ignore[no-untyped-call]
    return value.item()

"""Losses: from outputs (N x classes) and labels (N) to a mean over samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

Loss = Callable[["Tensor", "Tensor"], "Tensor"]


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """Negative logarithm of the label's softmax probability."""
    from torch.nn import functional

    return functional.cross_entropy(outputs, labels)


def squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Squared distance of the outputs from one at the label and zero elsewhere, over classes."""
    from torch.nn import functional

    wanted = functional.one_hot(labels, outputs.shape[1]).to(outputs.dtype)
    return functional.mse_loss(outputs, wanted)


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "squared_error": squared_error}


def check_outputs(outputs: object, labels: Tensor) -> Tensor:
    """Return a model's outputs if they are scores, one for each class of each sample."""
    import torch

    if not isinstance(outputs, torch.Tensor) or outputs.dim() != 2 or len(outputs) != len(labels):
        found = (
            f"shape {tuple(outputs.shape)}"
            if isinstance(outputs, torch.Tensor)
            else f"type {type(outputs).__name__}"
        )
        raise UserError(
            f"the model gives outputs of {found} for {len(labels)} samples; "
            "a classifier gives a tensor of samples x classes"
        )
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < outputs.shape[1]:
        raise UserError(
            f"labels go from {int(labels.min())} to {int(labels.max())}, but the model has "
            f"{outputs.shape[1]} outputs, for labels from 0"
        )
    return outputs

"""A model on samples: its loss and accuracy, and the gradient of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.training.flat_model import FlatModel
from workbench.training.repeatable import STEP, seeded
from workbench.utils.checks import UserError, check_whole

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Loss = Callable[["Tensor", "Tensor"], "Tensor"]
"""From outputs (N x classes) and labels (N) to a mean over samples."""


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
        given = f"type {type(outputs).__name__}"
        if isinstance(outputs, torch.Tensor):
            given = f"shape {tuple(outputs.shape)}"
        raise UserError(
            f"the model gives outputs of {given} for {len(labels)} samples; "
            "a classifier gives a tensor of samples x classes"
        )
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < outputs.shape[1]:
        raise UserError(
            f"labels go from {int(labels.min())} to {int(labels.max())}, but the model has "
            f"{outputs.shape[1]} outputs, for labels from 0"
        )
    return outputs


def as_tensor(samples: NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """Return an array or tensor as a tensor on a device, copied only where it must be."""
    import torch

    if isinstance(samples, torch.Tensor):
        return samples.to(device)
    # PyTorch has no tensors that cannot be written to, which those of a data set cannot.
    own = samples if samples.flags.writeable else np.array(samples)
    return torch.from_numpy(own).to(device)


def check_pairs(x: NDArray[Any] | Tensor, y: NDArray[Any] | Tensor) -> int:
    """Return the number of samples, if each has one label."""
    import torch

    for name, value in (("x", x), ("y", y)):
        if not (isinstance(value, np.ndarray | torch.Tensor) and value.ndim):
            raise UserError(f"{name} is {value!r}; give an array or tensor, a row for each sample")
    if len(x) != len(y) or not len(x):
        raise UserError(f"{len(x)} samples and {len(y)} labels; one label each, at least one")
    return len(x)


def number_type(module: torch.nn.Module) -> torch.dtype:
    """Type in which a module is given samples: that of its trained parameters."""
    return next(weight.dtype for weight in module.parameters() if weight.requires_grad)


def dtype_of(module: torch.nn.Module) -> str:
    """`number_type` by name, as profiles take it."""
    return str(number_type(module)).removeprefix("torch.")


def gradient_step(
    flat: FlatModel,
    x: NDArray[Any] | Tensor,
    y: NDArray[Any] | Tensor,
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
    seed
        Of what the module draws at random (dropout); give each step another. With None it draws
        from PyTorch's global generator.
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


@dataclass(frozen=True)
class Evaluation:
    """Means over samples.

    Attributes
    ----------
    loss
        Not finite where the model's outputs are not.
    top1, top5
        Fractions of samples whose label has the highest score, or one of the five highest. Of
        equal scores that of the lower class counts as the higher; outputs that are not numbers
        count as wrong. With five classes or fewer, `top5` means nothing.
    samples
        How many were evaluated.
    """

    loss: float
    top1: float
    top5: float
    samples: int


def evaluate(
    model: torch.nn.Module,
    x: NDArray[Any] | Tensor,
    y: NDArray[Any] | Tensor,
    batch_size: int = 256,
    *,
    loss: Loss = cross_entropy,
) -> Evaluation:
    """Evaluate a classifier, in evaluation mode; afterwards every part has its mode back.

    `model` returns N x classes for the samples `x`; labels `y` are int64. `batch_size` changes
    nothing but the rounding.
    """
    import torch

    count = check_pairs(x, y)
    batch_size = check_whole("batch_size", batch_size, 1)
    if not isinstance(model, torch.nn.Module):
        raise UserError(
            f"model is of type {type(model).__name__}; give a torch.nn.Module, such as "
            "training.initialise(...) returns"
        )
    device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
    total_loss, in_first, in_five = 0.0, 0, 0
    with evaluating(model), torch.no_grad():
        for start in range(0, count, batch_size):
            inputs = as_tensor(x[start : start + batch_size], device)
            labels = as_tensor(y[start : start + batch_size], device)
            outputs = check_outputs(model(inputs), labels)
            total_loss += float(loss(outputs, labels)) * len(labels)
            places = _places(outputs, labels)
            in_first += int((places < 1).sum())
            in_five += int((places < 5).sum())
    return Evaluation(total_loss / count, in_first / count, in_five / count, count)


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Set every part of a model to evaluation mode; restore each part's own mode afterwards."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def _places(outputs: Tensor, labels: Tensor) -> Tensor:
    """Place of each label among the scores, best 0; beyond all where one is not a number."""
    import torch

    classes = outputs.shape[1]
    scores = outputs.gather(1, labels[:, None])
    lower = torch.arange(classes, device=outputs.device) < labels[:, None]
    before = (outputs > scores) | ((outputs == scores) & lower)
    return before.sum(1).masked_fill(outputs.isnan().any(1), max(classes, 5))

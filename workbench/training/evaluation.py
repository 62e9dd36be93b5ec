"""Loss and accuracy of a model on samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from workbench.checks import check_whole
from workbench.errors import UserError
from workbench.training.losses import Loss, check_outputs, cross_entropy
from workbench.training.tensors import as_tensor, check_pairs

if TYPE_CHECKING:
    import torch


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
    x: NDArray[Any] | torch.Tensor,
    y: NDArray[Any] | torch.Tensor,
    batch_size: int = 256,
    *,
    loss: Loss = cross_entropy,
) -> Evaluation:
    """Evaluate a classifier, in evaluation mode; afterwards every part has its mode back.

    `model` returns N x classes for the samples `x`; labels `y` are int64. `batch_size` changes
    nothing but the rounding. `loss` is a mean over a batch.

    Raises ValueError: no module, no samples, not as many labels, labels or outputs that do not fit.
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


def _places(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Place of each label among the scores, best 0; beyond all where one is not a number."""
    import torch

    classes = outputs.shape[1]
    scores = outputs.gather(1, labels[:, None])
    lower = torch.arange(classes, device=outputs.device) < labels[:, None]
    before = (outputs > scores) | ((outputs == scores) & lower)
    return before.sum(1).masked_fill(outputs.isnan().any(1), max(classes, 5))

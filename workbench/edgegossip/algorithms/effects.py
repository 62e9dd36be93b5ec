"""The effects that points are ranked by, how many points are selected, and in which batches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.edgegossip.aggregation.aggregation import Indices
from workbench.training.objective import CLASSES, Objective, output_tensor
from workbench.utils.checks import UserError, check_number, check_whole

if TYPE_CHECKING:
    import torch

    from workbench.datasets.dataset import Samples


def quota(points: int, ratio: float) -> int:
    """Return the least whole number of points that is no less than the share `ratio` of them.

    Ratios are quotients of floats, so 0.07 of 100 points, 7.000000000000001, is 7.
    """
    if not 0 <= check_number("ratio", ratio) <= 1:
        raise UserError(f"ratio is {ratio}; it is the share of points to be processed, 0 to 1")
    return math.ceil(points * ratio * (1 - 1e-12))


def checked_effects(effects: ArrayLike, count: int | None = None) -> NDArray[np.float64]:
    """Return effects as float64, (count,), without NaN."""
    array = np.asarray(effects, dtype=np.float64)
    if array.ndim != 1 or not array.size or count not in (None, array.size):
        wanted = "at least one" if count is None else f"{count} of them"
        raise UserError(f"effects have shape {array.shape}; give one number each, {wanted}")
    if np.isnan(array).any():
        raise UserError(
            f"effects hold NaN in {np.count_nonzero(np.isnan(array))} of {array.size} places; "
            "has training diverged? A smaller learning rate may help"
        )
    return array


def in_batches(order: Indices, batch_size: int) -> list[Indices]:
    """Cut points in their order into batches of `batch_size`; the last has what is left."""
    size = check_whole("batch_size", batch_size, 1)
    return [order[first : first + size] for first in range(0, len(order), size)]


def point_losses(
    model: torch.nn.Module,
    x: Samples,
    y: NDArray[Any],
    batch_size: int = 256,
    objective: Objective = CLASSES,
) -> NDArray[np.float64]:
    """Return the loss of each point, (N,), in evaluation mode, `batch_size` at once.

    Floats are given to the model as float32.
    """
    import torch
    from torch.nn import functional

    from workbench.training.evaluation import applied, as_tensor, evaluating

    def losses_of(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if objective.loss is CLASSES.loss and labels.dim() == 1:
            return functional.cross_entropy(outputs, labels, reduction="none")
        each = [
            objective.value(outputs[at : at + 1], labels[at : at + 1]) for at in range(len(outputs))
        ]
        return torch.stack([loss.reshape(()) for loss in each])

    device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
    losses = []
    with evaluating(model), torch.no_grad():
        for first in range(0, len(x), batch_size):
            part = slice(first, first + batch_size)
            returned = applied(model, x[part], device, torch.float32)
            losses.append(losses_of(output_tensor(returned), as_tensor(y[part], device)))
    return torch.cat(losses).double().cpu().numpy()

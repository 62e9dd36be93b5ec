"""Passes through a model cut in parts, each run where its layers are.

What crosses a cut is detached there: autograd keeps the graph of each part, and gradients are
handed back from part to part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from workbench.datasets import NamedArrays
from workbench.training.evaluation import as_tensor, tensors_of
from workbench.training.objective import CLASSES, Objective
from workbench.training.trained import DivergedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from workbench.datasets import Dataset
    from workbench.training.evaluation import Samples
    from workbench.training.pieces import Pieces

    Tensors = tuple[Tensor, ...]

Place = TypeVar("Place")

Gradient = tuple["Tensor | None", ...]
"""For each tensor that crosses a cut; None for one without a gradient."""


class Features(NamedTuple):
    """Tensors that cross a cut, with the labels of their samples."""

    tensors: Tensors
    labels: Tensor


class Pass(NamedTuple):
    """A part's pass over some samples, of which `given` are leaves, kept for its gradient."""

    given: Tensors
    made: Tensors
    labels: Tensor

    @property
    def features(self) -> Features:
        """What crosses the cut behind it."""
        return Features(tuple(tensor.detach() for tensor in self.made), self.labels)


@dataclass(frozen=True, eq=False)
class Batches:
    """Samples of each iteration's batch, floats in the model's number type."""

    dataset: Dataset
    indices: Sequence[NDArray[np.int64]]
    like: Tensor  # a tensor of the model

    def __call__(self, iteration: int, part: slice = slice(None)) -> Features:
        """Samples of an iteration as features before layer 1."""
        chosen, like = self.indices[iteration][part], self.like
        inputs = tensors_of(self.dataset.x_train[chosen], like.device, like.dtype)
        return Features(tuple(inputs), as_tensor(self.dataset.y_train[chosen], like.device))

    def as_given(self, tensors: Tensors) -> Samples:
        """Those of a batch as the whole model is given them: by their names, if they have any."""
        names = [x.name for x in self.dataset.inputs]
        return NamedArrays(dict(zip(names, tensors, strict=True))) if all(names) else tensors[0]


def forward(run: Callable[[Tensors], Tensors], features: Features, *, trains_below: bool) -> Pass:
    """Pass features through a part; their gradient is kept where layers below are trained."""
    import torch

    given = tuple(
        tensor.detach().requires_grad_(trains_below and tensor.is_floating_point())
        for tensor in features.tensors
    )
    with torch.enable_grad():
        return Pass(given, run(given), features.labels)


def backward(passed: Pass, gradient: Gradient) -> Gradient:
    """Gradient of what the part was given; those of parameters add up in the flat vector."""
    import torch

    learnt = [
        (made, grad)
        for made, grad in zip(passed.made, gradient, strict=True)
        if grad is not None and made.requires_grad
    ]
    if learnt:
        torch.autograd.backward([made for made, _ in learnt], [grad for _, grad in learnt])
    return tuple(tensor.grad for tensor in passed.given)


def loss_gradient(
    scores: Features, where: str, objective: Objective = CLASSES, weight: float = 1.0
) -> tuple[float, Gradient]:
    """Mean loss of a batch, times a weight, and its gradient by the model's outputs.

    Raises DivergedError: the loss is not finite; `where` says on which node, and when.
    """
    import torch

    outputs = tuple(tensor.detach().requires_grad_() for tensor in scores.tensors)
    with torch.enable_grad():
        whole = outputs[0] if len(outputs) == 1 else outputs
        value = weight * objective.value(whole, scores.labels)
    return check_finite(value.item(), where), torch.autograd.grad(value, outputs)


def check_finite(loss: float, where: str) -> float:
    """Return a loss that is finite."""
    if not math.isfinite(loss):
        raise DivergedError(loss, where)
    return loss


def shared_by_places(
    pieces: Pieces, places: Iterable[Place]
) -> tuple[str, int, Place, Place] | None:
    """A weight that two places would each learn apart, if any: its name, layer, and the two places.

    `places` says where each layer is.
    """
    held: dict[str, Place] = {}
    for layer, (used, place) in enumerate(zip(pieces.parameters, places, strict=True), start=1):
        for weight in sorted(used):
            if (other := held.setdefault(weight, place)) != place:
                return weight, layer, other, place
    return None

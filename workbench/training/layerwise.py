"""A model of which layers are computed one part after another, forward and backward."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from workbench.training.flat_model import FlatModel
from workbench.training.objective import CLASSES, Objective
from workbench.training.passes import Features, Gradient, Pass, backward, forward, loss_gradient
from workbench.training.pieces import Pieces
from workbench.training.repeatable import seeded


@dataclass(eq=False)
class LayerwiseModel:
    """A model that computes layers `first` to `last`, from 1, when their turn comes.

    The gradient in ``flat.gradients`` is that of the whole model; it rounds differently where
    layers share a weight, or a batch is normalised.

    Attributes
    ----------
    flat, pieces
        The model as one vector, and the same module in layers.
    objective
        Whose loss it is.
    """

    flat: FlatModel
    pieces: Pieces
    objective: Objective = CLASSES
    _passes: dict[tuple[int, int], Pass] = field(default_factory=dict, repr=False)

    def begin(self) -> None:
        """Begin a step with a gradient of 0."""
        self.flat.check_attached()
        self.flat.gradients.zero_()
        self._passes.clear()

    def forward(
        self, first: int, last: int, features: Features, seed: tuple[int, ...] | None = None
    ) -> Features:
        """Features behind layer `last`; what their gradient takes is kept.

        `seed` is of what the layers draw (dropout); with None they draw from PyTorch's global
        generator.
        """
        draws: AbstractContextManager[Any] = nullcontext() if seed is None else seeded(*seed)
        with draws:
            passed = forward(
                partial(self.pieces.run, first, last),
                features,
                trains_below=self.flat.layout.starts[first - 1] > 0,
            )
        self._passes[first, last] = passed
        return passed.features

    def loss(self, outputs: Features, where: str, weight: float = 1.0) -> tuple[float, Gradient]:
        """The weighted mean loss, and its gradient by the model's outputs; see `loss_gradient`."""
        return loss_gradient(outputs, where, self.objective, weight)

    def backward(self, first: int, last: int, gradient: Gradient) -> Gradient:
        """Gradient before layer `first`; those of parameters add up in the flat vector.

        The layers are those of a call of `forward`.
        """
        return backward(self._passes.pop((first, last)), gradient)

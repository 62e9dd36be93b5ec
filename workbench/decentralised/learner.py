"""A node's learning: true gradients, steps of its own, merging of other models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from numpy.typing import NDArray

from workbench.training import (
    CLASSES,
    Evaluation,
    FlatModel,
    Objective,
    Sgd,
    evaluate,
    get_buffers,
    gradient_step,
    set_buffers,
)
from workbench.training.repeatable import STEP, derive
from workbench.training.trained import DivergedError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from workbench.datasets import Dataset

Values = NDArray[Any]
"""Numbers of a model or a gradient, flat."""


class Addend(Protocol):
    """A vector that can be added to a model, such as a part of a gradient."""

    def add_to(self, flat: Values, scale: float) -> None:
        """Add it, times `scale`, to a flat vector."""


Updates = Sequence[tuple[Addend, float]]
"""Vectors to add to a model, each with its factor."""


class Model(NamedTuple):
    """A model as it travels; its buffers weigh nothing on the links."""

    parameters: Tensor
    buffers: Mapping[str, Tensor]


@dataclass(eq=False)
class PeerLearner:
    """One node's model and optimiser."""

    node: int
    seed: int  # of the run; with `node` it seeds what the model draws (dropout)
    flat: FlatModel  # a vector of its own, which no message refers to
    first: Tensor  # first parameters
    dataset: Dataset
    sgd: Sgd
    name: str = "a node"  # the node's, for errors
    parallel: bool = False  # steps run beside other nodes', so that the model must draw nothing
    objective: Objective = CLASSES

    def __post_init__(self) -> None:
        self._first_buffers = get_buffers(self.flat.module)
        self.velocity = self.sgd.start(self.flat.parameters)
        self.begin(0)

    def begin(self, restarts: int) -> None:
        """Forget all but the first model, as a restart does."""
        self.adopt(self.first, self._first_buffers)
        self.velocity.zero_()
        self.steps, self._restarts = 0, restarts
        self._loss_sum, self._samples = 0.0, 0

    # --- Learning -------------------------------------------------------------------------------

    def learn(self, batch: NDArray[np.int64], updates: Updates = ()) -> float:
        """Take a step along the gradient of a batch; parameters as for `gradient`."""
        loss = self.gradient(batch, updates)
        self.step()
        return loss

    def gradient(self, batch: NDArray[np.int64], updates: Updates = ()) -> float:
        """Add updates to the model, then compute the gradient of a batch; return the mean loss."""
        self.add(updates)
        loss = self._gradient_step(batch)
        if not math.isfinite(loss):
            raise DivergedError(loss, f"for {self.name} in its step {self.steps + 1}")
        self.steps += 1
        self._loss_sum += loss * len(batch)
        self._samples += len(batch)
        return loss

    def _gradient_step(self, batch: NDArray[np.int64]) -> float:
        x, y = self.dataset.x_train[batch], self.dataset.y_train[batch]
        seed = derive(self.seed, STEP, self.node, self._restarts, self.steps)
        seed_or_none = None if self.parallel else seed
        return gradient_step(self.flat, x, y, objective=self.objective, seed=seed_or_none)

    def step(self) -> None:
        """Take a step along the gradient that was computed last."""
        self.sgd.step(self.flat.parameters, self.flat.gradients, self.velocity)

    def try_out(self, batch: NDArray[np.int64]) -> None:
        """Compute the gradient of a batch, only for the time that it takes; the model stays."""
        buffers = self.buffers()
        self._gradient_step(batch)
        set_buffers(self.flat.module, buffers)

    def evaluate(self, updates: Updates = ()) -> Evaluation:
        """Add updates to the model, then compute loss and metrics on the test samples."""
        self.add(updates)
        data = self.dataset
        return evaluate(self.flat.module, data.x_test, data.y_test, objective=self.objective)

    def take_loss(self) -> tuple[int, float | None]:
        """Samples since the last call, and the mean loss over them before each step."""
        samples, loss_sum = self._samples, self._loss_sum
        self._loss_sum, self._samples = 0.0, 0
        return samples, loss_sum / samples if samples else None

    # --- Models of others -----------------------------------------------------------------------

    def add(self, updates: Updates) -> None:
        """Add updates to the model, each times its factor."""
        if updates:
            flat = self.flat.parameters.numpy()
            for update, factor in updates:
                update.add_to(flat, factor)

    def snapshot(self) -> Model:
        """A copy of the model, to send."""
        return Model(self.flat.parameters.clone(), self.buffers())

    def buffers(self) -> dict[str, Tensor]:
        """Copies of the model's buffers."""
        return get_buffers(self.flat.module)

    def take_buffers(self, buffers: Mapping[str, Tensor]) -> None:
        """Take over buffers of floating-point numbers; counters stay."""
        taken = {name: buffer for name, buffer in buffers.items() if buffer.is_floating_point()}
        set_buffers(self.flat.module, self.buffers() | taken)

    def adopt(self, parameters: Tensor, buffers: Mapping[str, Tensor]) -> None:
        """Take over another node's model."""
        self.flat.parameters.copy_(parameters)
        set_buffers(self.flat.module, buffers)

    def merge(self, model: Model, weight: float) -> None:
        """Move towards a model: by 0 not at all, by 1 the whole distance.

        Deviation: papers on exchanges of models are silent on what batch normalisation averages.
        Here it is exchanged and averaged as the parameters are; counters stay.
        """
        self.flat.parameters.lerp_(model.parameters, weight)
        self.take_buffers(
            {
                name: tensor.lerp(model.buffers[name], weight)
                for name, tensor in self.buffers().items()
                if tensor.is_floating_point()
            }
        )

    def mix(self, weights: Mapping[int, float], models: Mapping[int, Model]) -> None:
        """Become a weighted sum, added up in the order of `weights`, the own model included.

        Buffers are averaged as in `merge`.
        """
        import torch

        own = Model(self.flat.parameters, self.buffers())
        of_all = [(models.get(node, own), weight) for node, weight in weights.items()]
        total = torch.zeros_like(self.flat.parameters)
        for model, weight in of_all:
            total.add_(model.parameters, alpha=weight)
        self.take_buffers(
            {
                name: torch.stack([model.buffers[name] * weight for model, weight in of_all]).sum(0)
                for name, tensor in own.buffers.items()
                if tensor.is_floating_point()
            }
        )
        self.flat.parameters.copy_(total)

"""The learning behind the programs: true gradients, the same step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.olpb.algorithms.gradients import Elements, elements_of
from workbench.olpb.programs.jacobians import JacobianLearner
from workbench.olpb.programs.work import Idle
from workbench.training import (
    DivergedError,
    FlatModel,
    Pieces,
    Sgd,
    get_buffers,
    gradient_step,
    seeded,
    set_buffers,
)
from workbench.training.losses import check_outputs, cross_entropy
from workbench.training.repeatable import STEP
from workbench.training.tensors import as_tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from workbench.datasets import Dataset
    from workbench.olpb.training.evaluations import Evaluations


@dataclass(frozen=True, eq=False)
class Batches:
    """Samples and labels of each iteration, in the model's number type."""

    dataset: Dataset
    indices: Sequence[NDArray[np.int64]]
    like: Tensor

    def __getitem__(self, iteration: int) -> tuple[Tensor, Tensor]:
        """Images and labels of an iteration."""
        chosen = self.indices[iteration]
        images = as_tensor(self.dataset.x_train[chosen], self.like.device).to(self.like.dtype)
        return images, as_tensor(self.dataset.y_train[chosen], self.like.device)


@dataclass(eq=False)
class ServerModel:
    """The server's model, and its steps."""

    flat: FlatModel
    sgd: Sgd
    seed: int
    batches: Batches
    evaluations: Evaluations
    losses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.velocity = self.sgd.start(self.flat.parameters)

    def take_loss(self, loss: float) -> None:
        """Keep the loss of a batch; refuse one that is not finite."""
        if not math.isfinite(loss):
            raise DivergedError(loss, f"in iteration {len(self.losses) + 1}")
        self.losses.append(loss)

    def step(self, at_s: float) -> None:
        """Step by the vector of gradients."""
        self.sgd.step(self.flat.parameters, self.flat.gradients, self.velocity)
        whole, buffers = slice(None), get_buffers(self.flat.module)
        self.evaluations.take(len(self.losses), whole, self.flat.parameters, buffers, at_s)


class AutogradLearner(Idle):
    """Nodes take their time, and gradients come from autograd, in the model's own precision."""

    def __init__(self, elements: int, model: ServerModel) -> None:
        super().__init__(elements)
        self.model = model

    def begin(self, iteration: int) -> Sequence[None]:
        """Find the gradients of a batch at once; they are used when the scan is over."""
        model = self.model
        with seeded(model.seed, STEP, 0, iteration):
            model.take_loss(gradient_step(model.flat, *model.batches[iteration]))
        return super().begin(iteration)

    def end(self, parts: Mapping[int, Any], at_s: float) -> None:
        """Step."""
        self.model.step(at_s)


def scan_learner(model: ServerModel, unit: str, level: int) -> JacobianLearner:
    """Nodes multiply Jacobians, in double precision; gradients are rounded to the model's own."""
    import torch

    def of_batch(iteration: int) -> Elements:
        x, y = model.batches[iteration]
        with seeded(model.seed, STEP, 0, iteration):
            found = elements_of(model.flat.module, x, y, unit, level=level, loss=cross_entropy)
        model.take_loss(found.tape.loss)
        if next(model.flat.module.buffers(), None) is not None:  # statistics: it ran on a copy
            with seeded(model.seed, STEP, 0, iteration), torch.no_grad():
                model.flat.module(x)
        return found

    def take(made: Elements, gradients: dict[str, Tensor], at_s: float) -> None:
        del made
        flat = model.flat
        flat.check_attached()
        flat.gradients.zero_()
        for name, gradient in gradients.items():
            flat.gradients[flat.layout.tensor_slices[name]] = gradient.reshape(-1).to(
                flat.gradients.dtype
            )
        model.step(at_s)

    return JacobianLearner(of_batch, take)


class Features(NamedTuple):
    """Tensors that cross a cut, with the labels of their samples."""

    tensors: tuple[Tensor, ...]
    labels: Tensor


class Kept(NamedTuple):
    """What a module keeps of a batch until its gradient comes."""

    given: tuple[Tensor, ...]
    made: tuple[Tensor, ...]
    labels: Tensor
    copy: FlatModel  # with the weights of the pass


@dataclass(eq=False)
class ModuleModel:
    """A module of decoupled back-propagation: layers `first` to `last`, as `Pieces` count them.

    A pass runs on a copy of the model that keeps its weights until the gradient is there; there are
    as many copies as passes are kept, used in turn.
    """

    place: int
    pieces: Pieces
    span: tuple[int, int]
    flat: FlatModel
    copies: Sequence[FlatModel]
    sgd: Sgd
    seed: int
    batches: Batches
    evaluations: Evaluations
    losses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.velocity = self.sgd.start(self.flat.parameters)
        self.where = self.flat.layout.layers_slice(*self.span)
        names = self.pieces.buffers[self.span[0] - 1 : self.span[1]]
        self._buffers = frozenset[str]().union(*names)

    def start(self) -> Tensor:
        """The module's part of the vector, as a view."""
        return self.flat.parameters[self.where]

    def samples(self, iteration: int) -> Features:
        """A batch as features before the first layer."""
        images, labels = self.batches[iteration]
        return Features((images,), labels)

    def run(self, iteration: int, features: Features, weights: Tensor) -> Kept:
        """Pass features forward with a copy of the weights; autograd keeps the graph."""
        import torch

        copy = self.copies[iteration % len(self.copies)]
        copy.parameters[self.where] = weights
        set_buffers(copy.module, get_buffers(self.flat.module))
        first, last = self.span
        trains_below = self.where.start > 0
        given = tuple(
            one.detach().requires_grad_(trains_below and one.is_floating_point())
            for one in features.tensors
        )
        with torch.enable_grad(), seeded(self.seed, STEP, self.place, iteration):
            made = self.pieces.on(copy.module).run(first, last, given)
        set_buffers(self.flat.module, get_buffers(copy.module))
        return Kept(given, made, features.labels, copy)

    def features(self, kept: Kept) -> Features:
        """What the next module is given."""
        return Features(tuple(one.detach() for one in kept.made), kept.labels)

    def loss(self, kept: Kept) -> tuple[Tensor | None, ...]:
        """Gradient of the mean loss by the scores."""
        import torch

        scores = tuple(one.detach().requires_grad_() for one in kept.made)
        with torch.enable_grad():
            outputs = scores[0] if len(scores) == 1 else scores
            value = cross_entropy(check_outputs(outputs, kept.labels), kept.labels)
        if not math.isfinite(loss := value.item()):
            raise DivergedError(loss, f"in iteration {len(self.losses) + 1}")
        self.losses.append(loss)
        return torch.autograd.grad(value, scores)

    def learn(
        self, gradient: tuple[Tensor | None, ...], weights: Tensor, kept: Kept
    ) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        """Go backward through the copy, and step on the weights."""
        import torch

        copy = kept.copy
        copy.check_attached()
        copy.gradients.zero_()
        pairs = [
            (made, one)
            for made, one in zip(kept.made, gradient, strict=True)
            if one is not None and made.requires_grad
        ]
        if pairs:
            torch.autograd.backward([made for made, _ in pairs], [one for _, one in pairs])
        self.sgd.step(weights, copy.gradients[self.where], self.velocity[self.where])
        return weights, tuple(one.grad for one in kept.given)

    def end(self, iteration: int, at_s: float) -> None:
        """Hand in the weights as they are after an iteration."""
        buffers = get_buffers(self.flat.module)
        own = {name: one for name, one in buffers.items() if name in self._buffers}
        self.evaluations.take(iteration + 1, self.where, self.start(), own, at_s)

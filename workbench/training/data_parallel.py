"""Data-parallel learning: a worker's gradients of its own batches, and epochs of the common model.

Whoever averages the gradients and steps, servers or the workers themselves, records its parts of
the model at the end of an epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.training.evaluation import gradient_step
from workbench.training.flat_model import FlatModel, average_buffers, get_buffers, set_buffers
from workbench.training.layerwise import LayerwiseModel
from workbench.training.objective import CLASSES, Objective
from workbench.training.passes import Batches, Features, Gradient, check_finite
from workbench.training.repeatable import STEP, derive
from workbench.training.shell import OneModel
from workbench.training.trained import Epochs, Trained

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.datasets import Dataset
    from workbench.runtime import Run

Parts = Sequence[tuple[slice, Any]]
"""Parts of the flat vector with their numbers."""


class WorkerStep(NamedTuple):
    """A worker's gradient in an iteration: the loss, and at the end of an epoch the buffers."""

    loss: float
    buffers: dict[str, Tensor] | None


class ModelParts(NamedTuple):
    """A node's parts of the model at the end of an epoch."""

    parts: Parts


@dataclass(eq=False, kw_only=True)
class WorkerReplica:
    """A worker's copy of the model, learning from its own batches.

    The whole gradient is computed with the last layers' backward computation; or layer by layer
    when their turn comes, which is the same gradient, if there is a `layerwise` model. Every layer
    then draws from a seed of its own, so that masks of dropout depend on no plan.
    """

    flat: FlatModel  # written to by pulls
    dataset: Dataset
    batches: Sequence[Any]  # indices of each iteration's samples, all epochs in one list
    seed: tuple[int, int]  # the run's and the worker's number: of what the model draws (dropout)
    epoch_ends: Sequence[int]  # iterations up to the end of each epoch
    name: str = "worker"  # of the worker, for errors
    parallel: bool = False  # steps run beside other workers', so that the model must draw nothing
    objective: Objective = CLASSES
    layerwise: LayerwiseModel | None = None
    _features: Features | None = field(default=None, repr=False)  # behind the last layer forward
    _gradient: Gradient = field(default=(), repr=False)  # behind the next layer backward

    @property
    def layers(self) -> int:
        """Number of layers of the model."""
        return len(self.flat.layout)

    def write(self, parts: Parts) -> None:
        """Copy pulled parameters in."""
        for where, values in parts:
            self.flat.parameters[where].copy_(values)

    def gradients(self, where: Sequence[slice]) -> Parts:
        """Parts of the gradient, as views.

        Unchanged until the next step: that needs parameters which the servers make from all
        gradients.
        """
        return [(part, self.flat.gradients[part]) for part in where]

    def forward(self, iteration: int, first: int, last: int) -> None:
        """Pass the batch through layers `first` to `last`, if layer by layer."""
        model = self.layerwise
        if model is None or not len(self.batches[iteration]):
            return
        if first == 1:
            model.begin()
            samples = Batches(self.dataset, self.batches, self.flat.parameters)
            self._features = samples(iteration)
        assert self._features is not None
        for layer in range(first, last + 1):
            seed = None if self.parallel else (self.draws(iteration), STEP, layer)
            self._features = model.forward(layer, layer, self._features, seed)

    def backward(self, iteration: int, first: int, last: int) -> float | None:
        """Compute gradients of layers `last` down to `first`; return the loss with the last one."""
        model, loss, ends = self.layerwise, None, last == self.layers
        if model is None or not len(self.batches[iteration]):
            return self.learn(iteration) if ends else None
        if ends:
            assert self._features is not None
            loss, self._gradient = model.loss(self._features, self.where(iteration))
        for layer in range(last, first - 1, -1):
            self._gradient = model.backward(layer, layer, self._gradient)
        return loss

    def learn(self, iteration: int) -> float:
        """Compute the gradient of this iteration's batch, of an empty one 0; return the loss."""
        batch = self.batches[iteration]
        if not len(batch):
            self.flat.gradients.zero_()
            return 0.0
        seed = None if self.parallel else self.draws(iteration)
        x, y = self.dataset.x_train[batch], self.dataset.y_train[batch]
        loss = gradient_step(self.flat, x, y, objective=self.objective, seed=seed)
        return check_finite(loss, self.where(iteration))

    def try_out(self) -> None:
        """Compute the first gradient, and forget it."""
        buffers = get_buffers(self.flat.module)
        self.forward(0, 1, self.layers)
        self.backward(0, 1, self.layers)
        set_buffers(self.flat.module, buffers)

    def step_of(self, iteration: int, loss: float) -> WorkerStep:
        """The loss of an iteration; at the end of an epoch, with the buffers."""
        ends = iteration + 1 in self.epoch_ends
        return WorkerStep(loss, get_buffers(self.flat.module) if ends else None)

    def where(self, iteration: int) -> str:
        """The worker, the iteration and its epoch, for errors."""
        epoch = bisect_right(self.epoch_ends, iteration)
        return f"for {self.name} in iteration {iteration + 1}, epoch {epoch + 1}"

    def draws(self, iteration: int) -> int:
        """Seed of what the model draws: of no other run, worker or iteration."""
        run, worker = self.seed
        return derive(run, STEP, worker, iteration)


class DataParallelEpochs(Epochs):
    """Losses of iterations, and epochs, of what workers and owners of parts record.

    Every owner finishes an epoch before any finishes the next, since each iteration needs all of
    them. The workers' buffers are averaged.
    """

    def __init__(
        self,
        flat: FlatModel,
        dataset: Dataset,
        owners: int,
        labels: Sequence[Sequence[int]],
        objective: Objective = CLASSES,
    ) -> None:
        super().__init__(flat, dataset, objective)
        self.losses: list[float] = []  # means over all workers' labels, by iteration
        self._labels = labels  # that count, of each iteration's batches, by worker
        self._owners = self._missing = owners
        self._losses: dict[int, float] = {}  # of the present iteration, by worker
        self._buffers: defaultdict[int, list[Mapping[str, Tensor]]] = defaultdict(list)

    def observe(self, at_s: float, node: int, value: WorkerStep | ModelParts) -> None:
        """Take a worker's loss and buffers, or an owner's parameters; with the last, evaluate."""
        if isinstance(value, WorkerStep):
            self._take_loss(node, value.loss)
            if value.buffers is not None:
                self._buffers[node].append(value.buffers)
            return
        for where, values in value.parts:
            self.flat.parameters[where].copy_(values)
        self._missing -= 1
        if not self._missing:
            self._missing = self._owners
            # A fast worker may have ended the next epoch's only step while others still update.
            buffers = [self._buffers[worker].pop(0) for worker in sorted(self._buffers)]
            self.evaluate(average_buffers(buffers), at_s)

    def _take_loss(self, worker: int, loss: float) -> None:
        self._losses[worker] = loss
        counts = self._labels[len(self.losses)]
        if len(self._losses) < len(counts):
            return
        most = max(*counts, 1)
        total = sum(self._losses[at] * count / most for at, count in enumerate(counts))
        self.losses.append(total / (max(sum(counts), 1) / most))
        self._losses.clear()


@dataclass(frozen=True, eq=False)
class DataParallelPrograms(OneModel["Trained[Tensor]"]):
    """Programs of workers, with their replicas, and of who has parts of the model."""

    epochs: DataParallelEpochs

    def observe(self, at_s: float, node: int, value: Any) -> None:
        """Take a worker's loss and buffers, or an owner's part of the model."""
        self.epochs.observe(at_s, node, value)

    def trained(self, run: Run) -> Trained[Tensor]:
        """The finished epochs."""
        return Trained(self.epochs.frame, self.epochs.weights, run)

"""The learning behind workers and servers: true gradients, one step on the servers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.training import (
    CLASSES,
    Epochs,
    FlatModel,
    Objective,
    Sgd,
    average_buffers,
    get_buffers,
    gradient_step,
    set_buffers,
)
from workbench.training.layerwise import LayerwiseModel
from workbench.training.passes import Batches, Features, Gradient, check_finite
from workbench.training.repeatable import STEP, derive

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.datasets import Dataset

Parts = Sequence[tuple[slice, Any]]
"""Parts of the flat vector with their numbers."""


class WorkerStep(NamedTuple):
    """A worker's gradient in an iteration: the loss, and at the end of an epoch the buffers."""

    loss: float
    buffers: dict[str, Tensor] | None


class ServerModel(NamedTuple):
    """A server's part of the model at the end of an epoch."""

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


class ServerStore:
    """A server's parts of the model and of the optimiser's state, one behind the other.

    `own` are the parts, as slices of the model's vector, `labels` how many labels count of each
    iteration's batches, by worker.
    """

    def __init__(
        self,
        parameters: Tensor,
        own: Sequence[slice],
        sgd: Sgd,
        epoch_ends: Sequence[int],
        labels: Sequence[Sequence[int]],
    ) -> None:
        import torch

        self.own, self.sgd, self.epoch_ends, self.labels = own, sgd, epoch_ends, labels
        self.vector = torch.cat([parameters[part] for part in own])
        self.velocity, self.total = sgd.start(self.vector), torch.zeros_like(self.vector)
        self.steps = 0
        self._starts = [part.start for part in own]
        lengths = [part.stop - part.start for part in own]
        self._offsets = list(accumulate(lengths, initial=0))

    def _local(self, part: slice) -> slice:
        """Convert a slice of the model's vector, all of it stored here, to one of this store's."""
        at = bisect_right(self._starts, part.start) - 1
        shift = self._offsets[at] - self._starts[at]
        return slice(part.start + shift, part.stop + shift)

    def parameters(self, where: Sequence[slice]) -> Parts:
        """Parts of the model, as views.

        Unchanged until the next `step`: that needs the gradients of all workers, and a worker has
        none before it has copied all that it pulled.
        """
        return [(part, self.vector[self._local(part)]) for part in where]

    def step(self, gradients: Sequence[Parts]) -> ServerModel | None:
        """Average the gradients over labels, in the order of the workers, and step.

        At the end of an epoch, return the part of the model.
        """
        labels = self.labels[self.steps]
        largest = max(*labels, 1)  # so that equal batches are weighted by 1, which rounds nothing
        self.total.zero_()
        for parts, count in zip(gradients, labels, strict=True):
            for where, values in parts:
                self.total[self._local(where)].add_(values, alpha=count / largest)
        self.sgd.step(self.vector, self.total.div_(max(sum(labels), 1) / largest), self.velocity)
        self.steps += 1
        return ServerModel(self.parameters(self.own)) if self.steps in self.epoch_ends else None


class ServerEpochs(Epochs):
    """Losses of iterations, and epochs, of what workers and servers record.

    Every server finishes an epoch before any finishes the next, since each iteration needs all of
    them. The workers' buffers are averaged.
    """

    def __init__(
        self,
        flat: FlatModel,
        dataset: Dataset,
        servers: int,
        labels: Sequence[Sequence[int]],
        objective: Objective = CLASSES,
    ) -> None:
        super().__init__(flat, dataset, objective)
        self.losses: list[float] = []  # means over all workers' labels, by iteration
        self._labels = labels  # that count, of each iteration's batches, by worker
        self._servers = self._missing = servers
        self._losses: dict[int, float] = {}  # of the present iteration, by worker
        self._buffers: dict[int, Mapping[str, Tensor]] = {}  # of the present epoch, by worker

    def observe(self, at_s: float, node: int, value: WorkerStep | ServerModel) -> None:
        """Take a worker's loss and buffers, or a server's parameters; with the last, evaluate."""
        if isinstance(value, WorkerStep):
            self._take_loss(node, value.loss)
            if value.buffers is not None:
                self._buffers[node] = value.buffers
            return
        for where, values in value.parts:
            self.flat.parameters[where].copy_(values)
        self._missing -= 1
        if not self._missing:
            self._missing = self._servers
            buffers = [self._buffers[worker] for worker in sorted(self._buffers)]
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

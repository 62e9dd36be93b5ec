"""The learning behind workers and servers: true gradients, one step on the servers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from workbench.training import (
    CLASSES,
    Epochs,
    FlatModel,
    Objective,
    Sgd,
    average_buffers,
    get_buffers,
    gradient_step,
    seeded,
    set_buffers,
)
from workbench.training.evaluation import as_tensor, tensors_of
from workbench.training.passes import (
    Features,
    Gradient,
    Pass,
    backward,
    check_finite,
    forward,
    loss_gradient,
)
from workbench.training.repeatable import STEP, derive

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from workbench import training
    from workbench.datasets import Dataset

Pieces = Sequence[tuple[slice, Any]]
"""Parts of the flat vector with their numbers."""


class WorkerStep(NamedTuple):
    """A worker's gradient in an iteration: the loss, and at the end of an epoch the buffers."""

    loss: float
    buffers: dict[str, Tensor] | None


class ServerModel(NamedTuple):
    """A server's part of the model at the end of an epoch."""

    pieces: Pieces


Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")
Work = Callable[["WorkerReplica"], Any]


@dataclass
class WorkerReplica:
    """A worker's copy of the model, learning from its own batches."""

    flat: FlatModel  # written to by pulls
    dataset: Dataset
    batches: Sequence[Any]  # indices of each iteration's samples, all epochs in one list
    seed: tuple[int, int]  # the run's and the worker's number: of what the model draws (dropout)
    epoch_ends: Sequence[int]  # iterations up to the end of each epoch
    name: str = "worker"  # of the worker, for errors
    parallel: bool = False  # steps run beside other workers', so that the model must draw nothing
    objective: Objective = CLASSES

    def write(self, pieces: Pieces) -> None:
        """Copy pulled parameters in."""
        for where, values in pieces:
            self.flat.parameters[where].copy_(values)

    def work(self, direction: Direction, iteration: int, first: int, last: int) -> Work | None:
        """What is computed when layers `first` to `last` have their turn.

        All at once: the whole gradient with the last layers' backward computation. It returns the
        loss, or None if that is not known.
        """
        if direction == "forward" or last < self.layers:
            return None
        return methodcaller("learn", iteration)

    @property
    def layers(self) -> int:
        """Of the model."""
        return len(self.flat.layout.starts) - 1

    def learn(self, iteration: int) -> float:
        """Compute the gradient of this iteration's batch, of an empty one 0; return the loss."""
        if not len(self.batches[iteration]):
            self.flat.gradients.zero_()
            return 0.0
        seed = None if self.parallel else self.draws(iteration)
        x, y = self.samples(iteration)
        loss = gradient_step(self.flat, x, y, objective=self.objective, seed=seed)
        return check_finite(loss, self.where(iteration))

    def try_out(self) -> None:
        """Compute the first gradient, and forget it."""
        buffers = get_buffers(self.flat.module)
        for direction in DIRECTIONS:
            if (work := self.work(direction, 0, 1, self.layers)) is not None:
                work(self)
        set_buffers(self.flat.module, buffers)

    def samples(self, iteration: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Samples and labels of an iteration."""
        batch = self.batches[iteration]
        return self.dataset.x_train[batch], self.dataset.y_train[batch]

    def observation(self, iteration: int, loss: float) -> WorkerStep:
        """The loss of an iteration; at the end of an epoch, with the buffers."""
        ends = iteration + 1 in self.epoch_ends
        return WorkerStep(loss, get_buffers(self.flat.module) if ends else None)

    def where(self, iteration: int) -> str:
        """On which worker an iteration is, and when, for errors."""
        epoch = bisect_right(self.epoch_ends, iteration)
        return f"for {self.name} in iteration {iteration + 1}, epoch {epoch + 1}"

    def draws(self, iteration: int) -> int:
        """Seed of what the model draws: of no other run, worker or iteration."""
        run, worker = self.seed
        return derive(run, STEP, worker, iteration)

    def gradients(self, where: Sequence[slice]) -> Pieces:
        """Parts of the gradient, as views.

        Unchanged until the next `learn`: that needs parameters which the servers make from all
        gradients.
        """
        return [(part, self.flat.gradients[part]) for part in where]


@dataclass
class LayerwiseReplica(WorkerReplica):
    """Computes each layer when its turn comes, forward, too: the same gradient.

    It rounds differently where layers share a weight, or a batch is normalised. What the module
    draws is another: a layer draws by itself.
    """

    pieces: training.Pieces = field(kw_only=True)
    passed: list[Pass] = field(default_factory=list, kw_only=True)  # of layers 1, 2 and so on
    gradient: Gradient = field(default=(), kw_only=True)  # behind the next layer to go back through

    def work(self, direction: Direction, iteration: int, first: int, last: int) -> Work | None:
        """The layers' own part."""
        if not len(self.batches[iteration]):
            return super().work(direction, iteration, first, last)
        return methodcaller(direction, iteration, first, last)

    def forward(self, iteration: int, first: int, last: int) -> None:
        """Pass the batch through layers `first` to `last`."""
        if first == 1:
            self.flat.check_attached()
            self.flat.gradients.zero_()
            x, y = self.samples(iteration)
            device, dtype = self.flat.device, self.flat.parameters.dtype
            inputs = tensors_of(x, device, dtype)
            features = Features(tuple(inputs), as_tensor(y, device))
        else:
            features = self.passed[-1].features
        for layer in range(first, last + 1):
            run, trained = (
                partial(self.pieces.run, layer, layer),
                self.flat.layout.starts[layer - 1],
            )
            draws: AbstractContextManager[Any] = nullcontext()
            if not self.parallel:
                draws = seeded(self.draws(iteration), STEP, layer)
            with draws:
                self.passed.append(forward(run, features, trains_below=trained > 0))
            features = self.passed[-1].features

    def backward(self, iteration: int, first: int, last: int) -> float | None:
        """Compute gradients of layers `last` down to `first`; the loss, with the last layer."""
        loss = None
        if last == self.layers:
            scores, where = self.passed[-1].features, self.where(iteration)
            loss, self.gradient = loss_gradient(scores, where, self.objective)
        for _ in range(first, last + 1):
            self.gradient = backward(self.passed.pop(), self.gradient)
        return loss


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

    def parameters(self, where: Sequence[slice]) -> Pieces:
        """Parts of the model, as views.

        Unchanged until the next `step`: that needs the gradients of all workers, and a worker has
        none before it has copied all that it pulled.
        """
        return [(part, self.vector[self._local(part)]) for part in where]

    def step(self, gradients: Sequence[Pieces]) -> ServerModel | None:
        """Average the gradients over labels, in the order of the workers, and step.

        At the end of an epoch, return the part of the model.
        """
        labels = self.labels[self.steps]
        largest = max(*labels, 1)  # so that equal batches are weighted by 1, which rounds nothing
        self.total.zero_()
        for pieces, count in zip(gradients, labels, strict=True):
            for where, values in pieces:
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
        for where, values in value.pieces:
            self.flat.parameters[where].copy_(values)
        self._missing -= 1
        if not self._missing:
            self._missing = self._servers
            self.evaluate(
                average_buffers([self._buffers[one] for one in sorted(self._buffers)]), at_s
            )

    def _take_loss(self, worker: int, loss: float) -> None:
        self._losses[worker] = loss
        counts = self._labels[len(self.losses)]
        if len(self._losses) < len(counts):
            return
        most = max(*counts, 1)
        total = sum(self._losses[one] * count / most for one, count in enumerate(counts))
        self.losses.append(total / (max(sum(counts), 1) / most))
        self._losses.clear()

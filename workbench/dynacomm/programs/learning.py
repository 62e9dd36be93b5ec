"""The learning behind workers and servers: true gradients, one step on the servers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Literal

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
    from workbench.runtime import Synchronized

Pieces = Sequence[tuple[slice, Any]]
"""Parts of the flat vector with their numbers."""

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
    losses: list[float] = field(default_factory=list)  # of each iteration so far
    buffers: list[dict[str, Tensor]] = field(default_factory=list)  # at the end of each epoch

    def write(self, pieces: Pieces) -> None:
        """Copy pulled parameters in."""
        for where, values in pieces:
            self.flat.parameters[where].copy_(values)

    def work(self, direction: Direction, iteration: int, first: int, last: int) -> Work | None:
        """What is computed when layers `first` to `last` have their turn.

        All at once: the whole gradient with the last layers' backward computation.
        """
        if direction == "forward" or last < self.layers:
            return None
        return methodcaller("learn", iteration)

    @property
    def layers(self) -> int:
        """Of the model."""
        return len(self.flat.layout.starts) - 1

    def learn(self, iteration: int) -> None:
        """Compute the gradient of this iteration's batch; of an empty one it is 0."""
        if not len(self.batches[iteration]):
            self.flat.gradients.zero_()
            self.learnt(iteration, 0.0)
            return
        seed = None if self.parallel else self.draws(iteration)
        x, y = self.samples(iteration)
        loss = gradient_step(self.flat, x, y, objective=self.objective, seed=seed)
        self.learnt(iteration, loss)

    def try_out(self) -> None:
        """Compute the first gradient, and forget it."""
        noted, buffers = (len(self.losses), len(self.buffers)), get_buffers(self.flat.module)
        for direction in DIRECTIONS:
            if (work := self.work(direction, 0, 1, self.layers)) is not None:
                work(self)
        del self.losses[noted[0] :], self.buffers[noted[1] :]
        set_buffers(self.flat.module, buffers)

    def samples(self, iteration: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Samples and labels of an iteration."""
        batch = self.batches[iteration]
        return self.dataset.x_train[batch], self.dataset.y_train[batch]

    def learnt(self, iteration: int, loss: float) -> None:
        """Note the loss of an iteration, and the buffers at the end of an epoch."""
        self.losses.append(check_finite(loss, self.where(iteration)))
        if iteration + 1 in self.epoch_ends:
            self.buffers.append(get_buffers(self.flat.module))

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

    def backward(self, iteration: int, first: int, last: int) -> None:
        """Compute gradients of layers `last` down to `first`."""
        if last == self.layers:
            scores, where = self.passed[-1].features, self.where(iteration)
            loss, self.gradient = loss_gradient(scores, where, self.objective)
            self.learnt(iteration, loss)
        for _ in range(first, last + 1):
            self.gradient = backward(self.passed.pop(), self.gradient)


@dataclass
class ServerStore:
    """A server's part of the model and of the optimiser's state.

    The vectors are as long as the model; a server touches only its own parts, so servers share
    them.
    """

    vector: Tensor
    velocity: Tensor  # the optimiser's state
    total: Tensor  # of gradients
    own: Sequence[slice]
    sgd: Sgd
    epoch_ends: Sequence[int]  # iterations up to the end of each epoch
    epoch_ended: Callable[[Pieces, float], None]  # by the server's parameters and the second
    labels: Sequence[Sequence[int]]  # that count, of each iteration's batches, by worker
    steps: int = 0

    def parameters(self, where: Sequence[slice]) -> Pieces:
        """Parts of the model, as views.

        Unchanged until the next `step`: that needs the gradients of all workers, and a worker has
        none before it has copied all that it pulled.
        """
        return [(part, self.vector[part]) for part in where]

    def step(self, gradients: Sequence[Pieces], at_s: float) -> None:
        """Average the gradients over labels, in the order of the workers, and step.

        The step ends at `at_s`.
        """
        labels = self.labels[self.steps]
        largest = max(*labels, 1)  # so that equal batches are weighted by 1, which rounds nothing
        for part in self.own:
            self.total[part].zero_()
        for pieces, count in zip(gradients, labels, strict=True):
            for where, values in pieces:
                self.total[where].add_(values, alpha=count / largest)
        for part in self.own:
            mean = self.total[part].div_(max(sum(labels), 1) / largest)
            self.sgd.step(self.vector[part], mean, self.velocity[part])
        self.steps += 1
        if self.steps in self.epoch_ends:
            self.epoch_ended(self.parameters(self.own), at_s)


class ServerEpochs(Epochs):
    """Assembles the servers' parts when an epoch ends, and evaluates.

    Every server finishes an epoch before any finishes the next, since each iteration needs all of
    them. The workers' buffers are averaged.
    """

    def __init__(
        self,
        flat: FlatModel,
        dataset: Dataset,
        replicas: Sequence[WorkerReplica],
        servers: int,
        objective: Objective = CLASSES,
    ) -> None:
        super().__init__(flat, dataset, objective)
        self._replicas = replicas
        self._servers = self._missing = servers
        self._ended_s = 0.0

    def take(self, pieces: Pieces, at_s: float) -> None:
        """Take one server's parameters at the end of an epoch; with the last, evaluate."""
        for where, values in pieces:
            self.flat.parameters[where].copy_(values)
        self._ended_s = max(self._ended_s, at_s)
        self._missing -= 1
        if not self._missing:
            self._missing = self._servers
            ended = len(self)
            buffers = average_buffers([replica.buffers[ended] for replica in self._replicas])
            self.evaluate(buffers, self._ended_s)


def try_out(state: Synchronized[WorkerReplica]) -> None:
    """Compute a worker's first gradient, before a run."""
    state.value.try_out()

"""The learning behind workers and servers: true gradients, one step on the servers."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.training import (
    CLASSES,
    DivergedError,
    Epochs,
    FlatModel,
    Objective,
    Sgd,
    average_buffers,
    get_buffers,
    gradient_step,
)
from workbench.training.repeatable import STEP, derive

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.datasets import Dataset

Pieces = Sequence[tuple[slice, Any]]
"""Parts of the flat vector with their numbers."""


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

    def learn(self, iteration: int) -> None:
        """Compute the gradient of this iteration's batch."""
        batch, seed = self.batches[iteration], None if self.parallel else self.draws(iteration)
        x, y = self.dataset.x_train[batch], self.dataset.y_train[batch]
        loss = gradient_step(self.flat, x, y, objective=self.objective, seed=seed)
        epoch = bisect_right(self.epoch_ends, iteration)
        if not math.isfinite(loss):
            raise DivergedError(
                loss, f"for {self.name} in iteration {iteration + 1}, epoch {epoch + 1}"
            )
        self.losses.append(loss)
        if iteration + 1 == self.epoch_ends[epoch]:
            self.buffers.append(get_buffers(self.flat.module))

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
    steps: int = 0

    def parameters(self, where: Sequence[slice]) -> Pieces:
        """Parts of the model, as views.

        Unchanged until the next `step`: that needs the gradients of all workers, and a worker has
        none before it has copied all that it pulled.
        """
        return [(part, self.vector[part]) for part in where]

    def step(self, gradients: Sequence[Pieces], at_s: float) -> None:
        """Average the gradients, in the order of the workers, and step; it ends at `at_s`."""
        for part in self.own:
            self.total[part].zero_()
        for pieces in gradients:
            for where, values in pieces:
                self.total[where] += values
        for part in self.own:
            mean = self.total[part].div_(len(gradients))
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

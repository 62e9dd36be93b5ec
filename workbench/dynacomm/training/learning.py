"""The learning behind workers and servers: true gradients, one step on the servers."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.dynacomm.programs.worker_and_server import Pieces
from workbench.training import (
    DivergedError,
    Epochs,
    FlatModel,
    Sgd,
    average_buffers,
    get_buffers,
)
from workbench.training.draws import Steps
from workbench.training.repeatable import STEP, derive

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.datasets import Dataset


@dataclass
class WorkerReplica:
    """A worker's copy of the model, learning from its own batches.

    Attributes
    ----------
    flat
        Its model; written to by pulls.
    dataset
        Whose training samples the batches index.
    batches
        Indices of the samples of each iteration, all epochs behind each other.
    seed
        The run's, and the number of the worker: what the model draws at random, such as dropout,
        comes from both.
    epoch_ends
        Last iteration of each epoch, behind which to note what the replica remembers beside its
        parameters.
    name
        Of the worker, for errors.
    in_order
        Whether steps of several workers must not run at once; then each may draw at random, from
        a seed of its own.
    losses
        Of each iteration so far.
    buffers
        Running statistics at the end of the last epoch.
    """

    flat: FlatModel
    dataset: Dataset
    batches: Sequence[Any]
    seed: tuple[int, int]
    epoch_ends: Sequence[int]
    name: str = "worker"
    in_order: bool = True
    losses: list[float] = field(default_factory=list)
    buffers: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._steps = Steps(self.flat, self.dataset, self.name, self.in_order)

    def write(self, pieces: Pieces) -> None:
        """Take pulled parameters over."""
        for where, values in pieces:
            self.flat.parameters[where].copy_(values)

    def learn(self, iteration: int) -> None:
        """Compute the gradient of this iteration's batch."""
        loss = self._steps.step(self.batches[iteration], self.draws(iteration))
        epoch = bisect_left(self.epoch_ends, iteration)
        if not math.isfinite(loss):
            raise DivergedError(
                loss, f"for {self.name} in iteration {iteration + 1}, epoch {epoch + 1}"
            )
        self.losses.append(loss)
        if iteration == self.epoch_ends[epoch]:
            self.buffers = get_buffers(self.flat.module)

    def draws(self, iteration: int) -> int:
        """Seed of what the model draws: of no other run, worker or iteration."""
        run, worker = self.seed
        return derive(run, STEP, worker, iteration)

    def gradients(self, where: Sequence[slice]) -> Pieces:
        """Parts of the gradient, as views.

        They stay what they are until the next `learn`, for which the worker needs parameters
        that every server makes from all gradients.
        """
        self._steps.check()
        return [(part, self.flat.gradients[part]) for part in where]


@dataclass
class ServerStore:
    """A server's part of the model and of the optimiser's state.

    All vectors are as long as the model; only the server's own parts are ever touched, so servers
    may share them.

    Attributes
    ----------
    vector, velocity, total
        Parameters, the optimiser's state, and room for the sum of gradients.
    own
        The parts that this server holds.
    sgd
        How to step.
    epoch_ends
        Last iteration of each epoch.
    epoch_ended
        Called with this server's parameters at the end of each epoch, and the second.
    """

    vector: Tensor
    velocity: Tensor
    total: Tensor
    own: Sequence[slice]
    sgd: Sgd
    epoch_ends: Sequence[int]
    epoch_ended: Callable[[Pieces, float], None]
    steps: int = 0

    def parameters(self, where: Sequence[slice]) -> Pieces:
        """Parts of the model, as views.

        They stay what they are until the next `step`, which needs the gradients of every worker,
        and a worker has none before it has written all that it pulled.
        """
        return [(part, self.vector[part]) for part in where]

    def step(self, gradients: Sequence[Pieces], at_s: float) -> None:
        """Average the workers' gradients, given in their order, and step; it ends at `at_s`."""
        for part in self.own:
            self.total[part].zero_()
        for pieces in gradients:
            for where, values in pieces:
                self.total[where] += values
        for part in self.own:
            mean = self.total[part].div_(len(gradients))
            self.sgd.step(self.vector[part], mean, self.velocity[part])
        self.steps += 1
        if self.steps - 1 in self.epoch_ends:
            self.epoch_ended(self.parameters(self.own), at_s)


class ServerEpochs(Epochs):
    """Puts the servers' parts together when an epoch ends, and evaluates.

    Every server is through with an epoch before any is through with the next, for no worker gets
    on without all of them. The workers' buffers are averaged.
    """

    def __init__(
        self, flat: FlatModel, dataset: Dataset, replicas: Sequence[WorkerReplica], servers: int
    ) -> None:
        super().__init__(flat, dataset)
        self._replicas = replicas
        self._servers = self._missing = servers
        self._ended_s = 0.0

    def take(self, pieces: Pieces, at_s: float) -> None:
        """Take one server's parameters at the end of an epoch; the last one's make it whole."""
        for where, values in pieces:
            self.flat.parameters[where].copy_(values)
        self._ended_s = max(self._ended_s, at_s)
        self._missing -= 1
        if not self._missing:
            self._missing = self._servers
            self.evaluate(average_buffers([one.buffers for one in self._replicas]), self._ended_s)

"""What training came to, epoch by epoch, evaluated as each ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from workbench import training
from workbench.dynacomm.training.learning import WorkerReplica
from workbench.training.diverged import DivergedError

if TYPE_CHECKING:
    from workbench.datasets import Dataset
    from workbench.dynacomm.programs.worker_and_server import Pieces

SCHEMA = {
    "epoch": pl.Int64,
    "at_s": pl.Float64,
    "loss": pl.Float64,
    "train_top1": pl.Float64,
    "train_top5": pl.Float64,
    "top1": pl.Float64,
    "top5": pl.Float64,
}


class Epochs:
    """Puts the servers' parts together when an epoch ends, and evaluates: at no virtual time.

    Every server is through with an epoch before any is through with the next, for no worker gets
    on without all of them.

    Parameters
    ----------
    flat
        The model with its first weights; written to.
    dataset
        To evaluate on.
    replicas
        The workers', whose buffers are averaged.
    servers
        How many.

    Attributes
    ----------
    weights
        The model's flat vector at the end of the last epoch that is evaluated, or the first one.
    """

    def __init__(
        self,
        flat: training.FlatModel,
        dataset: Dataset,
        replicas: Sequence[WorkerReplica],
        servers: int,
    ) -> None:
        self.weights = flat.parameters.clone()
        self._flat, self._dataset, self._replicas = flat, dataset, replicas
        self._servers = self._missing = servers
        self._ended_s = 0.0
        self._rows: list[tuple[float, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def frame(self) -> pl.DataFrame:
        """A row for each; see `workbench.dynacomm.training.train.Trained`."""
        return pl.DataFrame(self._rows, schema=SCHEMA, orient="row")

    @property
    def last_loss(self) -> float | None:
        """Of the last one, over all samples."""
        return self._rows[-1][2] if self._rows else None

    def take(self, pieces: Pieces, at_s: float) -> None:
        """Take one server's parameters at the end of an epoch; the last one's make it whole.

        Raises
        ------
        DivergedError
            The loss over all samples is not finite.
        """
        for where, values in pieces:
            self._flat.parameters[where].copy_(values)
        self._ended_s = max(self._ended_s, at_s)
        self._missing -= 1
        if not self._missing:
            self._missing = self._servers
            self._evaluate()

    def _evaluate(self) -> None:
        module, data = self._flat.module, self._dataset
        training.set_buffers(
            module, training.average_buffers([one.buffers for one in self._replicas])
        )
        learnt = training.evaluate(module, data.x_train, data.y_train)
        if not math.isfinite(learnt.loss):
            raise DivergedError(
                learnt.loss, f"over all samples at the end of epoch {len(self) + 1}"
            )
        unseen = training.evaluate(module, data.x_test, data.y_test)
        weights = self._flat.parameters.clone()
        row = (learnt.loss, learnt.top1, learnt.top5, unseen.top1, unseen.top5)
        self.weights = weights
        self._rows.append((len(self) + 1, self._ended_s, *row))

"""Results of a training: epochs, weights and the run behind them, whole or in part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import polars as pl

from workbench.runtime import Run, SimulationError
from workbench.training.evaluation import Evaluation, evaluate
from workbench.training.flat_model import set_buffers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from workbench.datasets import Dataset
    from workbench.datasets.dataset import Images, Labels
    from workbench.training.flat_model import FlatModel

Weights_co = TypeVar("Weights_co", covariant=True)

COLUMNS = {
    "epoch": pl.Int64,  # from 1
    "node": pl.Int64,
    "name": pl.String,  # of the node
    "at_s": pl.Float64,  # virtual seconds at its end
    "loss": pl.Float64,
    "train_top1": pl.Float64,  # fractions of samples
    "train_top5": pl.Float64,
    "test_loss": pl.Float64,
    "top1": pl.Float64,
    "top5": pl.Float64,
    "consensus_error": pl.Float64,
    "samples": pl.Int64,
    "restarts": pl.Int64,
}
"""Columns of epochs in all systems, in their order."""
SHARED = ("epoch", "at_s", "loss", "top1")


def schema(own: Sequence[str]) -> dict[str, Any]:
    """Columns of a system's epochs: the shared ones and its own."""
    wanted = sorted({*SHARED, *own}, key=list(COLUMNS).index)
    return {name: COLUMNS[name] for name in wanted}


EPOCHS = schema(("train_top1", "train_top5", "top5"))
"""Columns where all nodes train one model; loss and train accuracy are over all samples."""


@dataclass(frozen=True, eq=False)
class Trained(Generic[Weights_co]):
    """Results of a training.

    Attributes
    ----------
    epochs
        A row for each epoch done, or for each on every node that has a model of its own; see
        `COLUMNS`.
    weights
        The flat vector of the model's trained parameters at the end of the last of these epochs
        (before any, the first one); or each node's at the end of the run.
    run
        The simulation behind it; ``run.interrupted`` if Ctrl-C ended it before its time.
    """

    epochs: pl.DataFrame
    weights: Weights_co
    run: Run


class TrainingError(SimulationError):
    """Training that could not go on; `trained` has the epochs that were done."""

    def __init__(self, message: str, trained: Trained[Any]) -> None:
        super().__init__(message, trained.run)
        self.trained = trained

    def __reduce__(self) -> tuple[type[TrainingError], tuple[str, Trained[Any]]]:
        """For other processes, where exceptions are made again from their arguments."""
        return type(self), (str(self), self.trained)


class DivergedError(ArithmeticError):
    """The loss is no finite number any more; `where` says on which node, and when."""

    def __init__(self, loss: float, where: str) -> None:
        super().__init__(f"the loss is {loss} {where}")


class Epochs:
    """Epochs of one model that several nodes train: evaluated as each ends, at no virtual time.

    `flat` is the model with its first weights, written to; `dataset` is in the model's number type.
    `weights` is the flat vector at the end of the last epoch that was evaluated, or the first one.
    """

    def __init__(self, flat: FlatModel, dataset: Dataset) -> None:
        self.flat, self.dataset = flat, dataset
        self.weights = flat.parameters.clone()
        self._rows: list[tuple[float, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def frame(self) -> pl.DataFrame:
        """A row per epoch, in the columns of `EPOCHS`."""
        return pl.DataFrame(self._rows, schema=EPOCHS, orient="row")

    @property
    def last_loss(self) -> float | None:
        """Over all samples, at the end of the last epoch."""
        return self._rows[-1][2] if self._rows else None

    def evaluate(self, buffers: Mapping[str, Tensor], at_s: float) -> None:
        """End an epoch with the model's current vector and these buffers.

        Raises DivergedError: the loss over all samples is not finite.
        """
        data = self.dataset
        set_buffers(self.flat.module, buffers)
        learnt = self._evaluated(data.x_train, data.y_train)
        if not math.isfinite(learnt.loss):
            raise DivergedError(
                learnt.loss, f"over all samples at the end of epoch {len(self) + 1}"
            )
        unseen = self._evaluated(data.x_test, data.y_test)
        self.weights = self.flat.parameters.clone()
        row = (learnt.loss, learnt.top1, learnt.top5, unseen.top1, unseen.top5)
        self._rows.append((len(self) + 1, at_s, *row))

    def _evaluated(self, x: Images, y: Labels) -> Evaluation:
        dtype = str(self.flat.parameters.dtype).removeprefix("torch.")
        return evaluate(self.flat.module, x.astype(dtype, copy=False), y)

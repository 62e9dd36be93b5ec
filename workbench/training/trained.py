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
from workbench.training.objective import CLASSES, Objective

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from workbench.datasets import Dataset
    from workbench.datasets.dataset import Samples
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
"""Columns of epochs in all systems, in their order, where labels are classes."""
SHARED = ("epoch", "at_s", "loss", "top1")


def schema(own: Sequence[str], metrics: Sequence[str] = ("top1",)) -> dict[str, Any]:
    """Columns of a system's epochs: the shared ones, its own, and the objective's metrics.

    Metrics other than those of classes stand where these would.
    """
    of_classes = ("train_top1", "train_top5", "top1", "top5")
    measured = [f"train_{name}" for name in metrics if f"train_{name}" in own]
    columns: dict[str, Any] = {}
    for name, kind in COLUMNS.items():
        if name == "train_top1":
            columns |= dict.fromkeys(measured, pl.Float64)
        elif name == "top1":
            columns |= dict.fromkeys(metrics, pl.Float64)
        elif name in (*SHARED, *own) and name not in of_classes:
            columns[name] = kind
    return columns


def metrics_of_each(objective: Objective) -> tuple[str, ...]:
    """Metrics of nodes that have a model each: all but ``top5``."""
    return tuple(name for name in objective.metrics if name != "top5")


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
    """Training that could not go on.

    `reason` says why, in a line; `trained` has the epochs that were done.
    """

    def __init__(self, message: str, trained: Trained[Any], reason: str | None = None) -> None:
        super().__init__(message, trained.run)
        self.trained = trained
        self.reason = (message if reason is None else reason).partition("\n")[0]

    def __reduce__(self) -> tuple[type[TrainingError], tuple[str, Trained[Any], str]]:
        """For other processes, where exceptions are made again from their arguments."""
        return type(self), (str(self), self.trained, self.reason)


class DivergedError(ArithmeticError):
    """The loss is no finite number any more; `where` says on which node, and when."""

    def __init__(self, loss: float, where: str) -> None:
        super().__init__(f"the loss is {loss} {where}")


class Epochs:
    """Epochs of one model that several nodes train: evaluated as each ends, at no virtual time.

    `flat` is the model with its first weights, written to. `weights` is the flat vector at the end
    of the last epoch that was evaluated, or the first one.
    """

    def __init__(self, flat: FlatModel, dataset: Dataset, objective: Objective = CLASSES) -> None:
        self.flat, self.dataset, self.objective = flat, dataset, objective
        self.weights = flat.parameters.clone()
        self._rows: list[tuple[float, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def frame(self) -> pl.DataFrame:
        """A row per epoch; loss and metrics to train on are over all samples.

        ``epoch, at_s, loss``, each metric as ``train_`` and its name, and each on the test samples;
        before these the ``test_loss``, unless labels are classes.
        """
        return pl.DataFrame(self._rows, schema=self._schema, orient="row")

    @property
    def _schema(self) -> dict[str, Any]:
        metrics = tuple(self.objective.metrics)
        own = [f"train_{name}" for name in metrics]
        return schema(own if "top5" in metrics else [*own, "test_loss"], metrics)

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
        row = {"epoch": len(self) + 1, "at_s": at_s, "loss": learnt.loss}
        row |= {f"train_{name}": value for name, value in learnt.metrics.items()}
        row |= {"test_loss": unseen.loss, **unseen.metrics}
        self._rows.append(tuple(row[name] for name in self._schema))

    def _evaluated(self, x: Samples, y: NDArray[Any]) -> Evaluation:
        module, dtype = self.flat.module, self.flat.parameters.dtype
        return evaluate(module, x, y, objective=self.objective, dtype=dtype)

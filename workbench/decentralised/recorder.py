"""Records of a run: iterations, epochs, arrivals, the distance between models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.training.objective import CLASSES, Objective
from workbench.training.passes import check_finite
from workbench.training.trained import metrics_of_each, schema

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.training import Evaluation

OWN = ("node", "name", "test_loss", "consensus_error", "samples", "restarts")
EPOCHS = schema(OWN)
"""Columns of epochs where labels are classes."""
_NUMBERED = {"at_s": pl.Float64, "node": pl.Int64, "name": pl.String, "iteration": pl.Int64}
ITERATIONS = {
    **_NUMBERED,
    **dict.fromkeys(("samples", "global_batch"), pl.Int64),
    "loss": pl.Float64,
    "restarts": pl.Int64,
}
TRANSFERS = {
    "at_s": pl.Float64,
    **{"source": pl.Int64, "source_name": pl.String, "target": pl.Int64, "target_name": pl.String},
    "topic": pl.String,
    **dict.fromkeys(("iteration", "values", "bytes"), pl.Int64),
}
_CHUNK = 1 << 20  # elements in double precision at once


class EpochEnd(NamedTuple):
    """The end of a node's epoch, after its exchange; the loss is the mean over its samples."""

    epoch: int
    ended_s: float
    samples: int
    loss: float | None  # before each step; None without samples
    model: Tensor
    restarts: int
    evaluation: Evaluation | None  # None in epochs that are not evaluated


class Iteration(NamedTuple):
    """A worker's iteration: its batch, the global one, the loss."""

    iteration: int
    samples: int
    global_batch: int
    loss: float
    restarts: int


class Arrival(NamedTuple):
    """A message that has arrived, with the iteration of its sender."""

    source: int
    topic: str
    iteration: int
    values: int
    size_bytes: float


class Evaluated(NamedTuple):
    """A worker's metrics and loss on the test samples."""

    iteration: int
    evaluation: Evaluation


class Spread:
    """Squared distance of models from their mean, model by model (Welford 1962)."""

    def __init__(self) -> None:
        self.nodes: set[int] = set()  # whose models are counted
        self.mean: Tensor | None = None
        self.squares = 0.0
        self.complete = True  # no model came when the mean was no longer kept

    def add(self, node: int, model: Tensor) -> None:
        """Count a node's model; the first one if it passes an epoch again after a restart."""
        import torch

        if node in self.nodes:
            return
        if self.mean is None:
            if self.nodes:
                self.complete = False
                return
            self.mean = torch.zeros_like(model, dtype=torch.float64)
        self.nodes.add(node)
        count = len(self.nodes)
        parts = zip(torch.split(self.mean, _CHUNK), torch.split(model, _CHUNK), strict=True)
        for mean, part in parts:
            away = part - mean  # in double precision, as the mean is
            mean.add_(away, alpha=1 / count)
            self.squares += float(torch.dot(away, away)) * (1 - 1 / count)

    @property
    def error(self) -> float | None:
        """Root of the mean squared distance of the models from their mean; None if incomplete."""
        return math.sqrt(max(self.squares, 0.0) / len(self.nodes)) if self.complete else None


@dataclass
class PeerRecorder:
    """Rows of what the nodes of a run record.

    A mean model is kept for at most as many epochs as there are nodes, so that memory is linear in
    nodes; where a node lags further behind, an epoch's consensus error is unknown.
    """

    names: Sequence[str]  # of the nodes
    objective: Objective = CLASSES
    rows: list[tuple[Any, ...]] = field(default_factory=list)  # of epochs
    spreads: dict[int, Spread] = field(default_factory=dict)
    evaluations: list[tuple[Any, ...]] = field(default_factory=list)
    iterations: list[tuple[Any, ...]] = field(default_factory=list)
    transfers: list[tuple[Any, ...]] = field(default_factory=list)

    def observe(self, at_s: float, node: int, value: Any) -> None:
        """Take what a node records."""
        name = self.names[node]
        match value:
            case EpochEnd():
                self._end_epoch(node, value)
            case Iteration():
                self.iterations.append((at_s, node, name, *value))
            case Evaluated():
                self.evaluate(at_s, node, *value)
            case Arrival():
                who = (value.source, self.names[value.source], node, name)
                self.transfers.append((at_s, *who, *value[1:-1], int(value.size_bytes)))

    def _end_epoch(self, node: int, end: EpochEnd) -> None:
        name, nodes = self.names[node], len(self.names)
        test: list[float | None] = [None] * (1 + len(self.metrics))
        if end.evaluation is not None:
            metrics = self._measured(end.evaluation, node, f"at the end of epoch {end.epoch}")
            test = [end.evaluation.loss, *metrics]
        row = (end.epoch, node, name, end.ended_s, end.loss, *test, end.samples, end.restarts)
        self.rows.append(row)
        if end.epoch not in self.spreads:
            kept = sorted(epoch for epoch, one in self.spreads.items() if one.mean is not None)
            for oldest in kept[: max(0, len(kept) + 1 - nodes)]:
                self.spreads[oldest].mean = None
            self.spreads[end.epoch] = Spread()
        spread = self.spreads[end.epoch]
        spread.add(node, end.model)
        if len(spread.nodes) == nodes:
            spread.mean = None

    def frame(self) -> pl.DataFrame:
        """A row per epoch and node, by epoch and then as they came."""
        rows = [
            (*row[:-2], self.spreads[row[0]].error, *row[-2:])
            for row in sorted(self.rows, key=lambda row: row[0])
        ]
        return pl.DataFrame(rows, schema=schema(OWN, self.metrics), orient="row")

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that evaluations hold beside the loss."""
        return metrics_of_each(self.objective)

    def _measured(self, evaluation: Evaluation, node: int, when: str) -> list[float]:
        """Metrics, of a loss that is finite."""
        check_finite(evaluation.loss, f"for {self.names[node]} on the test samples {when}")
        return [evaluation.metrics[name] for name in self.metrics]

    def last_iteration(self, node: int) -> int:
        """A worker's last iteration; 0 before any."""
        return next((row[3] for row in reversed(self.iterations) if row[1] == node), 0)

    def evaluate(self, at_s: float, node: int, iteration: int, evaluation: Evaluation) -> None:
        """Add a worker's metrics and loss on the test samples."""
        metrics = self._measured(evaluation, node, f"after iteration {iteration}")
        row = (at_s, node, self.names[node], iteration, *metrics, evaluation.loss)
        self.evaluations.append(row)

    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Evaluations, iterations and transfers."""
        measured = dict.fromkeys((*self.metrics, "loss"), pl.Float64)
        return (
            pl.DataFrame(self.evaluations, schema={**_NUMBERED, **measured}, orient="row"),
            pl.DataFrame(self.iterations, schema=ITERATIONS, orient="row"),
            pl.DataFrame(self.transfers, schema=TRANSFERS, orient="row"),
        )

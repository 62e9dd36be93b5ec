"""Records of a run by epochs: what each node learnt, and the distance between models."""

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


class Arrival(NamedTuple):
    """A message that has arrived, with the iteration of its sender."""

    source: int
    topic: str
    iteration: int
    values: int
    size_bytes: float


def measured(evaluation: Evaluation, metrics: Sequence[str], where: str) -> list[float]:
    """Metrics of an evaluation on the test samples, whose loss must be finite."""
    check_finite(evaluation.loss, where)
    return [evaluation.metrics[name] for name in metrics]


class Spread:
    """Squared distance of models from their mean, model by model (Welford 1962)."""

    def __init__(self) -> None:
        self.nodes: set[int] = set()  # whose models are counted
        self.mean: Tensor | None = None
        self.squares = 0.0
        self.complete = True  # until a model comes when the mean is no longer kept

    def add(self, node: int, model: Tensor) -> None:
        """Count a node's model, but not again where it repeats the epoch after a restart."""
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
class EpochRecorder:
    """Rows of the epochs of all nodes.

    A mean model is kept for at most as many epochs as there are nodes, so that memory is linear in
    nodes; where a node lags further behind, an epoch's consensus error is unknown.
    """

    names: Sequence[str]  # of the nodes
    objective: Objective = CLASSES
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    spreads: dict[int, Spread] = field(default_factory=dict)

    def observe(self, node: int, end: EpochEnd) -> None:
        """Take the end of a node's epoch."""
        name, metrics = self.names[node], metrics_of_each(self.objective)
        test: list[float | None] = [None] * (1 + len(metrics))
        if end.evaluation is not None:
            where = f"for {name} on the test samples at the end of epoch {end.epoch}"
            test = [end.evaluation.loss, *measured(end.evaluation, metrics, where)]
        row = (end.epoch, node, name, end.ended_s, end.loss, *test, end.samples, end.restarts)
        self.rows.append(row)
        if end.epoch not in self.spreads:
            kept = sorted(
                epoch for epoch, spread in self.spreads.items() if spread.mean is not None
            )
            for oldest in kept[: max(0, len(kept) + 1 - len(self.names))]:
                self.spreads[oldest].mean = None
            self.spreads[end.epoch] = Spread()
        spread = self.spreads[end.epoch]
        spread.add(node, end.model)
        if len(spread.nodes) == len(self.names):
            spread.mean = None

    def frame(self) -> pl.DataFrame:
        """A row per epoch and node, by epoch and then as they came."""
        rows = [
            (*row[:-2], self.spreads[row[0]].error, *row[-2:])
            for row in sorted(self.rows, key=lambda row: row[0])
        ]
        columns = schema(OWN, metrics_of_each(self.objective))
        return pl.DataFrame(rows, schema=columns, orient="row")

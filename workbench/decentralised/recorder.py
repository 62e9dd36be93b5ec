"""Results of each epoch on each node, and how far the nodes' models are from each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from workbench.training.trained import DivergedError, schema

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.decentralised.learner import Learner
    from workbench.training import Evaluation

EPOCHS = schema(("node", "name", "test_loss", "consensus_error", "samples", "restarts"))
_CHUNK = 1 << 20  # elements in double precision at once


@dataclass
class Spread:
    """Mean and squared distance from it, model by model (Welford 1962): no difference of sums."""

    counted: set[int] = field(default_factory=set)
    squares: float = 0.0
    mean: Tensor | None = None
    incomplete: bool = False  # a model came when the mean was no longer kept

    @property
    def count(self) -> int:
        """Number of models."""
        return len(self.counted)

    def add(self, node: int, model: Tensor) -> None:
        """Count one more node's model."""
        import torch

        if self.mean is None:
            self.mean = torch.zeros_like(model, dtype=torch.float64)
        self.counted.add(node)
        parts = zip(torch.split(self.mean, _CHUNK), torch.split(model, _CHUNK), strict=True)
        for mean, part in parts:
            away = part - mean  # in double precision, as the mean is
            mean.add_(away, alpha=1 / self.count)
            self.squares += float(torch.dot(away, away)) * (1 - 1 / self.count)

    @property
    def error(self) -> float | None:
        """Root of the mean squared distance of the models from their mean; None if incomplete."""
        if self.incomplete:
            return None
        return math.sqrt(max(self.squares, 0.0) / self.count)


@dataclass
class Recorder:
    """Rows of a run, as they come.

    A mean model is kept for at most as many epochs as there are nodes, so that memory is linear in
    nodes; where a node lags further behind, an epoch's consensus error is unknown.
    """

    nodes: int
    epochs: int
    evaluate_every: int
    rows: list[tuple[int, int, str, float, float | None, float | None, float | None, int, int]] = (
        field(default_factory=list)
    )
    spreads: dict[int, Spread] = field(default_factory=dict)

    def evaluates(self, epoch: int) -> bool:
        """Whether models are evaluated at the end of an epoch."""
        return not epoch % self.evaluate_every or epoch == self.epochs

    def note(
        self, epoch: int, at_s: float, learner: Learner, restarts: int, found: Evaluation | None
    ) -> None:
        """Note the end of a node's epoch, after its exchange, and its evaluation if any."""
        if found is not None and not math.isfinite(found.loss):
            where = f"for {learner.name} on the test samples at the end of epoch {epoch}"
            raise DivergedError(found.loss, where)
        samples, loss = learner.take_loss()
        test = (None, None) if found is None else (found.loss, found.top1)
        at = (epoch, learner.node, learner.name, at_s)
        self.rows.append((*at, loss, *test, samples, restarts))
        self._spread(epoch, learner.node, learner.flat.parameters)

    def _spread(self, epoch: int, node: int, model: Tensor) -> None:
        if epoch not in self.spreads:
            self.spreads[epoch] = Spread()
            open_epochs = [one for one, spread in self.spreads.items() if spread.mean is not None]
            for oldest in sorted(open_epochs)[: max(0, len(open_epochs) + 1 - self.nodes)]:
                self.spreads[oldest].mean = None
        spread = self.spreads[epoch]
        if node in spread.counted:  # a node that restarted may pass an epoch again
            return
        if spread.count and spread.mean is None:
            spread.incomplete = True
            return
        spread.add(node, model)
        if spread.count == self.nodes:
            spread.mean = None

    def frame(self) -> pl.DataFrame:
        """A row per epoch and node, by epoch and then as they came."""
        rows = [
            (*row[:7], self.spreads[row[0]].error, *row[7:])
            for row in sorted(self.rows, key=lambda row: row[0])
        ]
        return pl.DataFrame(rows, schema=EPOCHS, orient="row")

"""Records of a run by iterations: batches and losses, evaluations, messages that arrived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.decentralised.recorder import Arrival, measured
from workbench.training.trained import metrics_of_each

if TYPE_CHECKING:
    from workbench.training import Evaluation, Objective

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


class Iteration(NamedTuple):
    """A worker's iteration: its batch, the global one, the loss."""

    iteration: int
    samples: int
    global_batch: int
    loss: float
    restarts: int


class Evaluated(NamedTuple):
    """A worker's metrics and loss on the test samples."""

    iteration: int
    evaluation: Evaluation


@dataclass
class WorkerRecorder:
    """Rows of what the workers of a run record."""

    names: Sequence[str]  # of the workers
    objective: Objective
    evaluations: list[tuple[Any, ...]] = field(default_factory=list)
    iterations: list[tuple[Any, ...]] = field(default_factory=list)
    transfers: list[tuple[Any, ...]] = field(default_factory=list)

    def observe(self, at_s: float, node: int, value: Any) -> None:
        """Take what a worker records."""
        name = self.names[node]
        match value:
            case Iteration():
                self.iterations.append((at_s, node, name, *value))
            case Evaluated():
                self.evaluate(at_s, node, *value)
            case Arrival():
                who = (value.source, self.names[value.source], node, name)
                self.transfers.append((at_s, *who, *value[1:-1], int(value.size_bytes)))

    def evaluate(self, at_s: float, node: int, iteration: int, evaluation: Evaluation) -> None:
        """Add a worker's metrics and loss on the test samples."""
        where = f"for {self.names[node]} on the test samples after iteration {iteration}"
        metrics = measured(evaluation, metrics_of_each(self.objective), where)
        row = (at_s, node, self.names[node], iteration, *metrics, evaluation.loss)
        self.evaluations.append(row)

    def last_iteration(self, node: int) -> int:
        """A worker's last iteration; 0 before any."""
        return next((row[3] for row in reversed(self.iterations) if row[1] == node), 0)

    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Evaluations, iterations and transfers."""
        on_test = dict.fromkeys((*metrics_of_each(self.objective), "loss"), pl.Float64)
        return (
            pl.DataFrame(self.evaluations, schema={**_NUMBERED, **on_test}, orient="row"),
            pl.DataFrame(self.iterations, schema=ITERATIONS, orient="row"),
            pl.DataFrame(self.transfers, schema=TRANSFERS, orient="row"),
        )

"""What all workers of a run know, and what is recorded of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.training.trained import DivergedError

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Part
    from workbench.decentralised.learner import Learner
    from workbench.decentralised.setup import PeerSetup
    from workbench.dlion.algorithms.system import System
    from workbench.runtime import Message, Synchronized
    from workbench.training import Evaluation

EVALUATIONS = {
    "at_s": pl.Float64,
    "node": pl.Int64,
    "name": pl.String,
    "iteration": pl.Int64,
    "top1": pl.Float64,
    "loss": pl.Float64,
}
ITERATIONS = {
    "at_s": pl.Float64,
    "node": pl.Int64,
    "name": pl.String,
    "iteration": pl.Int64,
    "samples": pl.Int64,
    "global_batch": pl.Int64,
    "loss": pl.Float64,
    "restarts": pl.Int64,
}
TRANSFERS = {
    "at_s": pl.Float64,
    "source": pl.Int64,
    "source_name": pl.String,
    "target": pl.Int64,
    "target_name": pl.String,
    "topic": pl.String,
    "iteration": pl.Int64,
    "values": pl.Int64,
    "bytes": pl.Int64,
}


@dataclass
class Recorder:
    """Rows of a run, as they come; `names` are those of the nodes."""

    names: Sequence[str]
    evaluations: list[tuple[float, int, str, int, float, float]] = field(default_factory=list)
    iterations: list[tuple[float, int, str, int, int, int, float, int]] = field(
        default_factory=list
    )
    transfers: list[tuple[Any, ...]] = field(default_factory=list)

    def learnt(self, at_s: float, node: int, iteration: int, *row: Any) -> None:
        """Note a worker's iteration: its batch, the global one, the loss, its restarts."""
        self.iterations.append((at_s, node, self.names[node], iteration, *row))

    def heard(
        self, at_s: float, target: int, message: Message, iteration: int, values: int
    ) -> None:
        """Note what has arrived, by the iteration of its sender."""
        source, topic, size_bytes = message.sender, message.topic, int(message.size_bytes)
        names = self.names
        self.transfers.append(
            (
                at_s,
                source,
                names[source],
                target,
                names[target],
                topic,
                iteration,
                values,
                size_bytes,
            )
        )

    def evaluated(self, at_s: float, node: int, iteration: int, found: Evaluation) -> None:
        """Note a worker's accuracy and loss on the test samples."""
        if not math.isfinite(found.loss):
            where = f"for {self.names[node]} on the test samples after iteration {iteration}"
            raise DivergedError(found.loss, where)
        row = (iteration, found.top1, found.loss)
        self.evaluations.append((at_s, node, self.names[node], *row))

    def close(self, at_s: float, learners: Sequence[Learner]) -> None:
        """Evaluate every worker at the end of a run, with all that has arrived by then."""
        last = dict.fromkeys(range(len(learners)), 0)
        last.update({node: iteration for _, node, _, iteration, *_ in self.iterations})
        for node, learner in enumerate(learners):
            self.evaluated(at_s, node, last[node], learner.evaluate())

    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Evaluations, iterations and transfers."""
        return (
            pl.DataFrame(self.evaluations, schema=EVALUATIONS, orient="row"),
            pl.DataFrame(self.iterations, schema=ITERATIONS, orient="row"),
            pl.DataFrame(self.transfers, schema=TRANSFERS, orient="row"),
        )


@dataclass(frozen=True, eq=False)
class Job:
    """A training job."""

    setup: PeerSetup
    system: System
    learners: Sequence[Synchronized[Learner]]  # by node
    recorder: Recorder
    local_batch: int  # at first
    sample_s: float  # of learning from a sample at speed 1
    host_s: float  # of every iteration
    stands_for: float  # iterations of a longer training
    variables: tuple[slice, ...]  # of the flat vector
    last_iteration: float  # infinite if seconds end the run
    # by node: peers' gradients that are not added yet, each with its factor
    inboxes: Sequence[list[tuple[Part, float]]]
    # workers whose next iteration `synch_training` does not allow yet
    held_back: set[int] = field(default_factory=set)

"""Training of a method by its own system, and its curve of evaluations.

The training uses the paths and speeds of the problem, and the shards and first weights of the task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench import training
from workbench.comparison.learning.task import CURVE, Task
from workbench.runtime import Crash, LinkDown
from workbench.training import RunOptions, evaluate, fixed_threads
from workbench.training.models import make_model

if TYPE_CHECKING:
    from workbench.clusters import Cluster
    from workbench.comparison.methods import Method, Plan
    from workbench.runtime import Fault, Trace
    from workbench.training import Trained


@dataclass(frozen=True, eq=False)
class Trial:
    """One training of a method by its system.

    Attributes
    ----------
    faults, patience_s
        Faults, and the seconds that peers wait for a message; see `decentralised.GossipSetup`.
    """

    task: Task
    method: Method
    plan: Plan
    seed: int
    faults: Sequence[Fault] = field(default=(), kw_only=True)
    patience_s: float | None = field(default=None, kw_only=True)

    def train(self, setup: Any, how: Any) -> Any:
        """Run a system's training with the trial's faults, on one thread."""
        with fixed_threads():
            programs = setup.programs(how)
        faults = among(self.faults, programs.cluster)
        trained: Any = training.run(programs, RunOptions(faults, trace=True, threads=1))
        if trained.run.interrupted:
            raise KeyboardInterrupt
        return trained

    @property
    def nodes(self) -> list[int]:
        """Data owners that learn, in the order of the system's cluster."""
        owners = self.task.problem.owners
        return [node for node in owners if node in self.plan.learns_from]

    @property
    def shards(self) -> list[Any]:
        """Indices of the training samples of each of `nodes`."""
        problem, shards = self.task.problem, self.task.shards(self.seed)
        return [shards[problem.owners.index(node)] for node in self.nodes]

    def dead(self, at_s: float) -> set[int]:
        """Places among `nodes` of those that have crashed by this time."""
        names = [self.task.problem.cluster.names[node] for node in self.nodes]
        crashes = [fault for fault in self.faults if isinstance(fault, Crash)]
        crashed = {crash.node for crash in crashes if crash.at_s <= at_s}
        return {place for place, name in enumerate(names) if name in crashed}

    def cluster(self, nodes: Sequence[int], speeds: Sequence[float] | None = None) -> Cluster:
        """Some nodes and the paths between them, with these speeds at the beginning (default 1)."""
        part, own = self.task.problem.routes.part(nodes), self.task.problem.speeds
        factors = [
            (1.0 if speeds is None else speeds[place]) / own[node]
            for place, node in enumerate(nodes)
        ]
        scaled = tuple(
            replace(node, speed=node.speed_over_time.scaled(factor, 0.0, math.inf))
            for node, factor in zip(part.nodes, factors, strict=True)
        )
        return replace(part, nodes=scaled)

    def shared(self) -> dict[str, Any]:
        """Arguments that the setups of all systems take."""
        return {
            "model": self.task.model,
            "dataset": self.task.dataset,
            "epochs": self.task.epochs,
            "seed": self.seed,
            "objective": self.task.objective,
            "outputs": self.task.outputs,
        }

    def first(self) -> tuple[float, float]:
        """Loss and metric of the first weights on the test samples."""
        task, data = self.task, self.task.dataset
        with fixed_threads():
            model = make_model(task.model, data, self.seed, task.outputs)
            test = evaluate(model, data.x_test, data.y_test, objective=task.objective)
        return test.loss, test.metrics.get(task.objective.shown or "", math.nan)

    def bytes_sent(self, trace: Trace, nodes: Sequence[int]) -> tuple[Any, Any]:
        """Arrival times of messages, and the bytes sent over all links until then."""
        problem = self.task.problem
        places = {problem.cluster.names[node]: node for node in nodes}
        hops = {
            (problem.cluster.names[a], f"to {problem.cluster.names[b]}"): len(
                problem.routes.paths[a, b]
            )
            - 1
            for a, b in permutations(places.values(), 2)
        }
        sent = trace.frame.filter(pl.col("bytes") > 0).sort("end_s", maintain_order=True)
        links = [hops[pair] for pair in sent.select("node", "lane").iter_rows()]
        return sent["end_s"].to_numpy(), np.cumsum(sent["bytes"].to_numpy() * links)


def own_models(
    trial: Trial,
    evaluations: Iterable[tuple[float, int, float, float]],
    learnt: Iterable[tuple[float, int]],
    trained: Trained[Any],
) -> pl.DataFrame:
    """The curve of a training in which every node has a model.

    Parameters
    ----------
    evaluations
        ``at_s, place, loss, metric`` of a node's model.
    learnt
        ``at_s, samples`` that a node has learnt from since its last entry.
    """
    count = len(trial.nodes)
    loss, metric = trial.first()
    newest: dict[int, tuple[float, float]] = dict.fromkeys(range(count), (loss, metric))
    rows, times = [(0.0, loss, metric)], {0.0: 0}
    for at_s, place, loss, metric in sorted(evaluations):
        newest[place] = loss, metric
        for dead in trial.dead(at_s):
            newest.pop(dead, None)
        mean = tuple(np.mean(list(newest.values()), axis=0).tolist())
        if at_s in times:  # a row for an instant
            rows[times[at_s]] = (at_s, *mean)
        else:
            times[at_s] = len(rows)
            rows.append((at_s, *mean))
    return finished(trial, rows, learnt, trained, trial.nodes)


def finished(
    trial: Trial,
    rows: Sequence[tuple[float, float, float]],
    learnt: Iterable[tuple[float, int]],
    trained: Trained[Any],
    nodes: Sequence[int],
) -> pl.DataFrame:
    """The curve of evaluations ``at_s, loss, metric``, with bytes and samples until then."""
    assert trained.run.trace is not None
    arrived_s, sizes = trial.bytes_sent(trained.run.trace, nodes)
    entries = sorted(learnt)
    learnt_s, samples = [at_s for at_s, _ in entries], np.cumsum([count for _, count in entries])
    curve = [
        (at_s, _sum_at(at_s, arrived_s, sizes), _sum_at(at_s, learnt_s, samples), loss, metric)
        for at_s, loss, metric in rows
    ]
    frame = pl.DataFrame(curve, schema=CURVE, orient="row")
    return frame.with_columns(pl.col("metric").fill_nan(None))


def _sum_at(at_s: float, times_s: Any, sums: Any) -> float:
    """Value at a time of a sum that grows at `times_s`."""
    place = int(np.searchsorted(times_s, at_s, side="right"))
    return float(sums[place - 1]) if place else 0.0


def among(faults: Iterable[Fault], cluster: Cluster) -> tuple[Fault, ...]:
    """The faults that concern nodes and links of a cluster."""
    names = cluster.names
    links = {(names[a], names[b]) for a, b in cluster.links}
    return tuple(
        fault
        for fault in faults
        if (getattr(fault, "node", names[0]) in names)
        and (not isinstance(fault, LinkDown) or (fault.source, fault.target) in links)
    )

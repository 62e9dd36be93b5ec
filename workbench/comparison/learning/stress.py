"""Training under stress: a node dies or slows down, or nodes hold few of the classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.comparison import charts
from workbench.comparison.learning import sgd, systems
from workbench.comparison.learning.sgd import Batches
from workbench.comparison.learning.task import Task
from workbench.comparison.learning.train import LEARNING_RATES, method_names, plan_of, tasks_of
from workbench.comparison.learning.trial import Trial, among
from workbench.comparison.methods import METHODS, Method, Plan
from workbench.reproduction.sweep import sweep
from workbench.runtime import Crash, DeadlockError, Fault, SimulationError, SlowDown, simulate
from workbench.training import DivergedError, TrainingError
from workbench.utils.checks import UserError, check_whole

if TYPE_CHECKING:
    import torch

    from workbench.clusters import Cluster
    from workbench.comparison.problem import Problem
    from workbench.datasets import Dataset

SHOWN = (*charts.SHOWN, "gossip", "gosgd", "edgegossip", "dlion", "diloco")
"""Methods that are stressed by default: one of each system, and those without a server."""

ALPHA = 0.1
"""Parameter of the Dirichlet distribution of labels that are spread unevenly."""

PATIENCE = 2
"""Time, in exchanges of models, that peers wait for a silent node."""

STRESSES = ("node dies", "node slows", "labels uneven")
"""Stresses: from the middle of the training on the node is gone, or has half its speed; or each
node holds few of the classes, if samples have classes."""

SCHEMA = {
    "method": pl.String,
    "stress": pl.String,
    "seed": pl.Int64,
    "stops": pl.Boolean,
    "samples_per_s": pl.Float64,
    "rate_share": pl.Float64,
    "end_loss": pl.Float64,
}
"""Columns before the metric that the objective shows, and the reason."""

FAILURES = (SimulationError, DivergedError, UserError)


def stress(
    model: str | torch.nn.Module,
    cluster: Cluster,
    dataset: Dataset,
    batch_size: int = 32,
    *,
    node: str | int | None = None,
    epochs: int = 10,
    seeds: int = 1,
    seed: int = 0,
    learning_rate: float = LEARNING_RATES[0],
    methods: Sequence[str] = SHOWN,
    objective: Any = None,
    outputs: Callable[[Any], Any] | None = None,
    processes: int | None = None,
) -> pl.DataFrame:
    """Train with each method under each of `STRESSES`.

    The middle is that of each method's own training without stress. Peers go on without a node that
    has been silent for `patience_s`, as their systems do. Methods without such a timeout stop: the
    others wait for the node for ever. A method that does not use the node loses nothing.

    Delays do not change what methods equal to SGD learn, so their programs run without learning;
    all others run their system's training.

    Parameters
    ----------
    model, cluster, dataset, batch_size, epochs, seeds, seed, objective, outputs, processes
        As for `train_methods`.
    node
        Name or index of the node that dies or slows down; by default the last that holds samples.
    learning_rate
        Learning rate of a step on the batch of one worker.
    methods
        Names in `METHODS`.

    Returns
    -------
    polars.DataFrame
        A row for each method, stress and seed; the stress ``"none"`` comes first. ``stops`` says
        whether the training cannot go on. If it can, ``rate_share`` is its samples a second over
        those of the undisturbed training; ``end_loss`` and the metric that the objective shows,
        such as ``end_top1``, are those of the last evaluation on the test samples. A method that
        cannot be used has one row, with a ``reason``.
    """
    names = method_names(methods)
    count, first = check_whole("seeds", seeds, 1), check_whole("seed", seed, 0)
    how: dict[str, Any] = {"epochs": epochs, "objective": objective, "outputs": outputs}
    (task,) = tasks_of(model, cluster, dataset, batch_size, None, rates=(learning_rate,), **how)
    victim = max(task.problem.owners) if node is None else cluster.index(node)
    seeds_run = range(first, first + count)
    points = [{"method": name, "seed": seed} for seed in seeds_run for name in names]
    shown = task.objective.shown
    metric = {} if shown is None else {f"end_{shown}": pl.Float64}
    return sweep(
        stressed,
        points,
        SCHEMA | metric | {"reason": pl.String},
        title="stress",
        shared={"task": task, "node": cluster.names[victim]},
        processes=processes if isinstance(model, str) else 1,
    )


def stressed(task: Task, node: str, method: str, seed: int) -> Any:
    """Rows of one method: undisturbed, and under each stress."""
    chosen = METHODS[method]
    plan = plan_of(chosen, task.problem)
    if isinstance(plan, str):
        return {"reason": plan}
    by_sgd = chosen.update in sgd.UPDATES and bool(plan.phases)
    train = _sgd if by_sgd else _own_training
    try:
        usual = train(task, chosen, plan, seed)
    except FAILURES as error:
        return {"reason": _reason(error)}
    middle_s = usual.end_s / 2
    cases: list[tuple[Task, tuple[Fault, ...]]] = [
        (task, (Crash(node, middle_s),)),
        (task, (SlowDown(node, middle_s, math.inf, 2.0),)),
    ]
    labels = task.dataset.y_train
    if labels.ndim == 1 and labels.dtype.kind != "f":
        cases.append((replace(task, alpha=ALPHA), ()))
    shown = task.objective.shown
    rows = [_row("none", usual, usual, shown)]
    for name, (changed, faults) in zip(STRESSES, cases, strict=False):
        try:
            plan = chosen.plan(changed.problem)
            end = train(changed, chosen, plan, seed, faults)
            rows.append(_row(name, end, usual, shown))
        except FAILURES as error:
            rows.append({"stress": name, "stops": True, "reason": _reason(error)})
    return rows


class End(NamedTuple):
    """The end of a training: virtual seconds, samples learnt from, and the last evaluation."""

    end_s: float
    samples: float
    loss: float
    metric: float | None

    @property
    def samples_per_s(self) -> float:
        """Samples a second over the whole training."""
        return self.samples / self.end_s


def _row(name: str, end: End, usual: End, shown: str | None) -> dict[str, Any]:
    return {
        "stress": name,
        "stops": False,
        "samples_per_s": end.samples_per_s,
        "rate_share": end.samples_per_s / usual.samples_per_s,
        "end_loss": end.loss,
    } | ({} if shown is None else {f"end_{shown}": end.metric})


def _reason(error: Exception) -> str:
    if isinstance(error, SimulationError) and error.run.ended == "deadlock":
        return "the others wait for ever"
    return error.reason if isinstance(error, TrainingError) else str(error).partition("\n")[0]


def _sgd(task: Task, method: Method, plan: Plan, seed: int, faults: Sequence[Fault] = ()) -> End:
    """Train by plain SGD, and run the method's programs for its iterations, without learning."""
    learnt = sgd.learn(task, Batches.of(method, plan, task.problem), seed).row(-1, named=True)
    phase = plan.phases[0]
    programs = (plan.training or phase.programs)(learnt["iteration"])
    run = simulate(phase.cluster, programs, faults=among(faults, phase.cluster))
    if not run.results:
        raise DeadlockError("nobody is left to learn", run)
    return End(run.end_s, learnt["samples"], learnt["loss"], learnt["metric"])


def _own_training(
    task: Task, method: Method, plan: Plan, seed: int, faults: Sequence[Fault] = ()
) -> End:
    """Train by the method's own system."""
    timeout_s = patience_s(task.problem, plan)
    trial = Trial(task, method, plan, seed, faults=faults, patience_s=timeout_s)
    last = systems.train(trial).row(-1, named=True)
    return End(last["at_s"], last["samples"], last["loss"], last["metric"])


def patience_s(problem: Problem, plan: Plan) -> float:
    """Seconds of silence after which peers count a node as gone: `PATIENCE` exchanges of models.

    An exchange is a batch, and a model sent to each node over the slowest path.
    """
    nodes = sorted(plan.learns_from)
    slowest_s = max(
        problem.routes.link(*pair).overhead_s
        + problem.routes.link(*pair).latency_s
        + 8 * problem.model_bytes / problem.routes.path_bps(*pair)
        for pair in permutations(nodes, 2)
    )
    return PATIENCE * (len(nodes) * slowest_s + max(map(problem.batch_s, nodes)))

"""What each way loses when something goes wrong in the middle of its training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.clusters import Schedule
from workbench.comparison import charts
from workbench.comparison.learning import sgd, systems
from workbench.comparison.learning.sgd import Batches
from workbench.comparison.learning.task import Task
from workbench.comparison.learning.train import LEARNING_RATES, option_of, tasks_of, way_names
from workbench.comparison.learning.trial import Trial, among
from workbench.comparison.ways import WAYS, Option, Way
from workbench.reproduction.sweep import sweep
from workbench.runtime import (
    Crash,
    DeadlockError,
    Fault,
    LinkDown,
    SimulationError,
    SlowDown,
    simulate,
)
from workbench.training import DivergedError, Metric
from workbench.utils.checks import UserError, check_whole

if TYPE_CHECKING:
    import torch

    from workbench.clusters import Cluster
    from workbench.comparison.question import Question
    from workbench.datasets import Dataset
    from workbench.training import Objective

SHOWN = (*charts.SHOWN, "gossip", "gosgd", "edgegossip", "dlion", "diloco")
"""Ways that are stressed by default: of each system one, and what learns without a server."""

ALPHA = 0.1
"""Of the Dirichlet distribution of labels that are spread unevenly."""

PATIENCE = 2
"""Exchanges of models that peers wait for the silent."""

STRESSES = {
    "link delays": "the node's link carries nothing in the second quarter of the training, and "
    "messages wait",
    "link fails": "the node's link carries nothing from the middle on, and messages are lost",
    "node dies": "the node dies in the middle",
    "node slows": "the node has half its speed from the middle on",
    "labels uneven": "each node holds few of the classes, where samples have one each",
}
"""What goes wrong, by name."""

SCHEMA = {
    "way": pl.String,
    "stress": pl.String,
    "seed": pl.Int64,
    "stops": pl.Boolean,
    "samples_per_s": pl.Float64,
    "rate_share": pl.Float64,
    "end_loss": pl.Float64,
}


@dataclass(frozen=True)
class Outcome:
    """How a training went: samples a second over all of it, its end, and the last evaluation."""

    samples_per_s: float
    end_s: float
    loss: float
    metric: float | None


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
    ways: Sequence[str] = SHOWN,
    objective: Any = None,
    outputs: Callable[[Any], Any] | None = None,
    processes: int | None = None,
) -> pl.DataFrame:
    """Train in each way while something goes wrong, of those in `STRESSES`.

    Times are those of each way's own training without stress. Peers wait for the silent for at most
    their patience, some model transfers, and go on without them, as their systems do. Ways that
    have no such patience stop: all others wait for the node for ever. Where a way does not use the
    node nothing changes.

    Ways equal to SGD learn the same under whatever only delays them, so that their programs run
    without learning; all others run their system's training.

    Parameters
    ----------
    model, cluster, dataset, batch_size, epochs, seeds, seed, objective, outputs, processes
        As for `train_ways`.
    node
        Name or index of the node that fails or slows down, or whose link does, that to its first
        neighbour; by default the last that holds samples.
    learning_rate
        For a batch of one worker.
    ways
        Names in `WAYS`.

    Returns
    -------
    polars.DataFrame
        A row for each way, stress and seed; the stress ``"none"`` comes first. ``stops`` is whether
        the training cannot go on; else ``rate_share`` is its samples a second over those of the
        undisturbed training, ``top1_lost`` how much less its last accuracy on the test samples is
        (as a fraction), or by what labels are, ``perplexity_added`` or ``rmse_added``, how much
        more its error is. Ways that cannot be used have one row, with a ``reason``.
    """
    names = way_names(ways)
    count, first = check_whole("seeds", seeds, 1), check_whole("seed", seed, 0)
    how: dict[str, Any] = {"epochs": epochs, "objective": objective, "outputs": outputs}
    (task,) = tasks_of(model, cluster, dataset, batch_size, None, rates=(learning_rate,), **how)
    of_classes = dataset.y_train.ndim == 1 and dataset.y_train.dtype.kind != "f"
    uneven = replace(task, alpha=ALPHA) if of_classes else None
    victim = max(task.question.holders) if node is None else cluster.index(node)
    points = [{"way": name, "seed": one} for one in range(first, first + count) for name in names]
    return sweep(
        stressed,
        points,
        _schema(task.objective),
        title="stress",
        shared={"task": task, "uneven": uneven, "victim": victim},
        processes=processes if isinstance(model, str) else 1,
    )


def stressed(task: Task, uneven: Task | None, victim: int, way: str, seed: int) -> Any:
    """Rows of one way: undisturbed, and under each stress."""
    chosen = WAYS[way]
    option = option_of(chosen, task.question)
    if isinstance(option, str):
        return {"reason": option}
    try:
        try_out = _by_its_training
        if chosen.update in sgd.UPDATES and option.dry is not None:
            batches = Batches.of(chosen, option, task.question)
            learnt = {
                one.alpha: sgd.learn(one, batches, seed).row(-1, named=True)
                for one in (task, uneven)
                if one is not None
            }
            try_out = partial(_as_sgd, learnt)
        usual = try_out(task, chosen, seed)
    except FAILURES as error:
        return {"reason": _reason(error)}
    question, end_s = task.question, usual.end_s
    node = question.cluster.names[victim]
    cases: dict[str, tuple[Task, tuple[Fault, ...]]] = {
        "link delays": (replace(task, question=halting(question, victim, end_s)), ()),
        "link fails": (task, link_down(question, victim, end_s / 2)),
        "node dies": (task, (Crash(node, end_s / 2),)),
        "node slows": (task, (SlowDown(node, end_s / 2, math.inf, 2.0),)),
    }
    if uneven is not None:
        cases["labels uneven"] = uneven, ()
    rows = [_row("none", task.objective, usual, usual)]
    for name, (changed, faults) in cases.items():
        try:
            outcome = try_out(changed, chosen, seed, faults)
            rows.append(_row(name, task.objective, outcome, usual))
        except FAILURES as error:
            rows.append({"stress": name, "stops": True, "reason": _reason(error)})
    return rows


FAILURES = (SimulationError, DivergedError, UserError)


def _reason(error: Exception) -> str:
    if isinstance(error, SimulationError) and error.run.ended == "deadlock":
        return "the others wait for ever"
    return str(error).partition("\n")[0].partition(" (")[0]


def worse_by(objective: Objective) -> tuple[str, Metric]:
    """Column of how much worse a training ends than the undisturbed one, and the metric of it."""
    name = objective.shown or "loss"
    metric = objective.metrics.get(name, Metric(title="loss"))
    return f"{name}_{'lost' if metric.higher_is_better else 'added'}", metric


def _schema(objective: Objective) -> dict[str, Any]:
    """Columns, with the metric that the objective shows."""
    end = {f"end_{name}": pl.Float64 for name in [objective.shown] if name is not None}
    return {**SCHEMA, **end, worse_by(objective)[0]: pl.Float64, "reason": pl.String}


def _row(name: str, objective: Objective, outcome: Outcome, usual: Outcome) -> dict[str, Any]:
    worse, metric = worse_by(objective)
    own, other = (one.loss if objective.shown is None else one.metric for one in (outcome, usual))
    less, more = (own, other) if metric.higher_is_better else (other, own)
    return {
        "stress": name,
        "stops": False,
        "samples_per_s": outcome.samples_per_s,
        "rate_share": outcome.samples_per_s / usual.samples_per_s,
        "end_loss": outcome.loss,
        f"end_{objective.shown or 'loss'}": own,
        worse: None if less is None or more is None else more - less,
    }


def _as_sgd(
    learnt: Mapping[float | None, Mapping[str, Any]],
    task: Task,
    way: Way,
    seed: int,
    faults: Sequence[Fault] = (),
) -> Outcome:
    """Run a way's programs, without learning, for as many iterations as SGD has learnt in.

    `learnt` are the last evaluations of SGD, by the unevenness of labels.
    """
    option, last = way.find(task.question), learnt[task.alpha]
    dry = option.dry
    assert dry is not None
    programs = (option.training or dry.programs)(last["iteration"])
    run = simulate(dry.cluster, programs, faults=among(faults, dry.cluster))
    if not run.results:
        raise DeadlockError("nobody is left to learn", run)
    return Outcome(last["samples"] / run.end_s, run.end_s, last["loss"], last["metric"])


def _by_its_training(task: Task, way: Way, seed: int, faults: Sequence[Fault] = ()) -> Outcome:
    """Run the system's own training."""
    option = way.find(task.question)
    waits_s = patience_s(task.question, option)
    trial = Trial(task, way, option, seed, faults=faults, patience_s=waits_s)
    last = systems.train(trial).row(-1, named=True)
    end_s = last["at_s"]
    return Outcome(last["samples"] / end_s, end_s, last["loss"], last["metric"])


def patience_s(question: Question, option: Option) -> float:
    """Seconds of silence after which peers count a node as gone: `PATIENCE` exchanges of models.

    In an exchange every node sends its model to all others over its slowest link.
    """
    nodes = sorted(option.learns_from)
    slowest_s = max(
        question.link(*pair).overhead_s
        + question.link(*pair).latency_s
        + 8 * question.model_bytes / question.path_bps(*pair)
        for pair in permutations(nodes, 2)
    )
    return PATIENCE * (len(nodes) * slowest_s + max(map(question.batch_s, nodes)))


def halting(question: Question, victim: int, end_s: float) -> Question:
    """The question with a node's link that carries nothing in the second quarter of a time."""
    links, ends = dict(question.cluster.links), _link_of(question, victim)
    for pair in [pair for pair in links if set(pair) == ends]:
        rate = Schedule.of(links[pair].bandwidth).scaled(0.0, end_s / 4, end_s / 2)
        links[pair] = replace(links[pair], bandwidth_bps=rate)
    return replace(question, cluster=replace(question.cluster, links=links))


def link_down(question: Question, victim: int, from_s: float) -> tuple[LinkDown, ...]:
    """The failure of a node's link, for all pairs of nodes that it lies between."""
    names, ends = question.cluster.names, _link_of(question, victim)
    return tuple(
        LinkDown(names[a], names[b], from_s)
        for a, b in permutations(range(len(names)), 2)
        if any(set(hop) == ends for hop in pairwise(question.paths[a, b]))
    )


def _link_of(question: Question, victim: int) -> set[int]:
    """A node and its first neighbour; the node alone if it has none."""
    return {victim, *[pair[1] for pair in question.cluster.links if pair[0] == victim][:1]}

"""Every way trains the same model: which is the first to reach a loss, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.clusters import Cluster
from workbench.comparison.learning import sgd
from workbench.comparison.learning.peers import TRAININGS, Training
from workbench.comparison.learning.sgd import Batches, Clock
from workbench.comparison.learning.task import CURVE, Task
from workbench.comparison.question import Question, UnusableError
from workbench.comparison.ways import WAYS, Option, Way
from workbench.comparison.ways.way import EQUAL
from workbench.datasets.dataset import check_dataset
from workbench.experiments.sweep import ExperimentInterrupted, sweep
from workbench.profiles import LayerTimes, profile_model
from workbench.training import DivergedError, TrainingError
from workbench.training.models import check_model, make_model
from workbench.utils.checks import (
    UserError,
    check_name,
    check_number,
    check_whole,
    choose,
    listed,
)
from workbench.zoo import MODELS

if TYPE_CHECKING:
    import torch

    from workbench.datasets import Dataset

LEARNING_RATES = (0.1,)
"""Of a batch of one worker, by default."""

IMPROVEMENT = 0.9
"""Share of the best SGD's improvement that the default target asks for."""

EVALUATIONS = {"way": pl.String, "learning_rate": pl.Float64, "seed": pl.Int64, **CURVE}
LEARNT = {**EVALUATIONS, "iteration": pl.Int64, "reason": pl.String}
KEYS = ["way", "learning_rate"]
ROW = (*KEYS, "system", "update", "samples_share", "reason")
SUMMARY = {
    "way": pl.String,
    "system": pl.String,
    "update": pl.String,
    "samples_share": pl.Float64,
    "learning_rate": pl.Float64,
    "seeds": pl.Int64,
    "reached": pl.Int64,
    **{f"to_loss_s{suffix}": pl.Float64 for suffix in ("", "_min", "_max")},
    "to_loss_bytes": pl.Float64,
    "to_loss_samples": pl.Float64,
    "end_s": pl.Float64,
    "end_loss": pl.Float64,
    **{f"end_top1{suffix}": pl.Float64 for suffix in ("", "_min", "_max")},
    "reason": pl.String,
}


@dataclass(frozen=True, eq=False)
class TrainedWays:
    """All ways, trained.

    Attributes
    ----------
    evaluations
        ``way, learning_rate, seed, at_s, bytes, samples, loss, top1``: virtual seconds; bytes over
        all links and samples learnt from by then; loss and accuracy (0 to 1) on the test samples.
    summary
        A row a way, at its best learning rate, the first to reach the loss first. ``to_loss_s`` is
        the mean over seeds, with ``_min`` and ``_max``, of the time of the first evaluation at or
        below the loss, null unless all seeds ``reached`` it, as are ``to_loss_bytes`` and
        ``to_loss_samples``; ``end_`` is the last evaluation. Last come ways with a ``reason`` for
        not having been trained.
    target_loss
        That ways are ranked by.
    interrupted
        Whether Ctrl-C ended it.
    """

    evaluations: pl.DataFrame
    summary: pl.DataFrame
    target_loss: float
    interrupted: bool = False

    def __str__(self) -> str:
        ranked = self.summary.filter(pl.col("to_loss_s").is_not_null())
        target = f"a test loss of {self.target_loss:.3g}"
        if ranked.is_empty():
            return f"No way reached {target} with every seed."
        first = ranked.row(0, named=True)
        low_s, high_s = first["to_loss_s_min"], first["to_loss_s_max"]
        spread = f" ({low_s:.3g} to {high_s:.3g})" if first["seeds"] > 1 else ""
        said = [
            f"{first['way']} reaches {target} first, in {first['to_loss_s']:.3g}{spread} "
            f"virtual seconds, with {first['to_loss_bytes'] / 1e6:.3g} MB sent."
        ]
        others = ranked.filter(pl.col("system") != first["system"])
        if len(others):
            name, seconds = others.select("way", "to_loss_s").row(0)
            said.append(f"{name} takes {seconds / first['to_loss_s']:.3g} x as long.")
        early = self.summary.filter(
            pl.col("reason").is_null()
            & pl.col("to_loss_s").is_null()
            & (pl.col("end_s") < first["to_loss_s"])
        )
        if len(early):
            names = ", ".join(early["way"])
            said.append(f"Not decided, since their epochs ended before that: {names}; train more.")
        return " ".join(said)


def train_ways(
    model: str | torch.nn.Module,
    cluster: Cluster,
    dataset: Dataset,
    batch_size: int = 32,
    *,
    epochs: int = 20,
    seeds: int = 3,
    seed: int = 0,
    learning_rates: Sequence[float] = LEARNING_RATES,
    until_loss: float | None = None,
    alpha: float | None = None,
    ways: Sequence[str] | None = None,
    times: Mapping[str, LayerTimes] | None = None,
    processes: int | None = None,
) -> TrainedWays:
    """Train a model in every way that a cluster allows: true learning, virtual time.

    All ways of a seed begin with the same weights and learn from the same samples, split alike
    among the nodes that hold some, by the ``samples`` that these hold in the cluster; an epoch is
    one of this data set. All learn from as many samples, EdgeGossip from those that it chooses.

    Ways whose updates equal SGD's are learnt once for all that take the same batches, by plain SGD,
    with the times and bytes of each way's own simulated iterations. All others run their system's
    training on the cluster. Steps have no momentum, since DLion's exchange of gradients allows
    none. Where a step takes the gradients of several workers its learning rate is as many times
    that of one worker (Goyal et al. 2017, Sec. 2.1), so that a sample counts alike everywhere; of
    several `learning_rates` each way counts with its best.

    Nodes with a model each are evaluated each by itself, and the mean over nodes is taken, as in
    the papers of these systems. Evaluations take no virtual time. All seconds are virtual; wall
    seconds will join where ``runtime.measure`` runs the same programs in real processes.

    Parameters
    ----------
    model
        A name of the zoo, or a module, which goes on from the weights that it has.
    cluster, batch_size, times
        As for `compare`.
    dataset
        Images; fitted to the model's input if it is one of the zoo.
    epochs
        Passes over as many samples as the data set has.
    seeds, seed
        How many trainings of each way, from this seed on.
    learning_rates
        For a batch of one worker; every way is trained with each.
    until_loss
        Test loss that ways are ranked by. By default the loss behind 90 % of the way from the
        first loss to the least that the best way equal to SGD on all samples gets to, both as means
        over seeds.
    alpha
        Split each class among nodes by shares drawn from a Dirichlet distribution: small for nodes
        that hold few classes each. The ``samples`` of the cluster then play no part.
    ways
        Names in `WAYS`; all by default.
    processes
        That train beside each other; by default one for each core. A module trains in this one.

    Returns
    -------
    TrainedWays
        The same, bit for bit, for the same arguments. What Ctrl-C interrupts has the trainings that
        were finished.

    Raises
    ------
    UserError
        As for `compare`; images that the model does not take; an unknown way.
    """
    count, first = check_whole("seeds", seeds, 1), check_whole("seed", seed, 0)
    if until_loss is not None and not check_number("until_loss", until_loss) > 0:
        raise UserError(f"until_loss is {until_loss}; a loss is above 0")
    names = list(WAYS) if ways is None else [check_name("way", name, WAYS) for name in ways]
    rates = listed("learning_rates", learning_rates, "give numbers, such as (0.05, 0.1)")
    tasks = tasks_of(
        model, cluster, dataset, batch_size, times, rates=rates, epochs=epochs, alpha=alpha
    )
    question = tasks[0].question
    found = {name: option_of(WAYS[name], question) for name in names}
    learnt, interrupted = _learnt(tasks, found, range(first, first + count), processes)
    evaluations, rows = _by_way(tasks, found, learnt, count)
    target = default_target(evaluations, rows) if until_loss is None else until_loss
    return TrainedWays(evaluations, summary(evaluations, rows, target), target, interrupted)


def tasks_of(
    model: str | torch.nn.Module,
    cluster: Cluster,
    dataset: Dataset,
    batch_size: int,
    times: Mapping[str, LayerTimes] | None,
    *,
    rates: Sequence[float],
    **options: Any,
) -> list[Task]:
    """What all ways learn, a task for each learning rate.

    The profile is that of the model as it is trained, which may have other outputs than the zoo's.
    """
    check_dataset(dataset)
    if isinstance(model, str):
        dataset = dataset.fitted(choose("model", model, MODELS).input_shape)
    check_model(model, dataset, 0)
    if not rates:
        raise UserError("there are no learning_rates; give at least one")
    profile = profile_model(make_model(model, dataset, 0), dataset.input_shape)
    question = Question(profile, cluster, batch_size, times)
    return [
        Task(question, model, dataset, learning_rate=rate, **options)
        for rate in dict.fromkeys(rates)
    ]


def option_of(way: Way, question: Question) -> Option | str:
    """The way's best use of the cluster, or why there is none."""
    if way.moves_samples and not question.cluster.raw_samples_may_leave:
        return "raw samples may not leave the node that holds them"
    try:
        option = way.find(question)
    except UnusableError as error:
        return str(error)
    if way.update != EQUAL and way.system not in TRAININGS:
        return "compared by its speed alone: it has no training here"
    return option


def _batches(found: Mapping[str, Option | str], question: Question) -> dict[str, Batches]:
    """Batches of the ways that equal SGD."""
    return {
        name: Batches.of(WAYS[name], option, question)
        for name, option in found.items()
        if WAYS[name].update == EQUAL and not isinstance(option, str)
    }


def _learnt(
    tasks: Sequence[Task],
    found: Mapping[str, Option | str],
    seeds: range,
    processes: int | None,
) -> tuple[pl.DataFrame, bool]:
    """All trainings that have to be run, and whether Ctrl-C ended them."""
    batches = _batches(found, tasks[0].question)
    units: list[tuple[str, Batches | None]] = [
        (str(one), one) for one in dict.fromkeys(batches.values())
    ]
    units += [
        (name, None)
        for name, option in found.items()
        if name not in batches and not isinstance(option, str)
    ]
    points = [
        {
            "way": name,
            "learning_rate": task.learning_rate,
            "seed": seed,
            "task": task,
            "batches": one,
        }
        for seed in seeds
        for task in tasks
        for name, one in units
    ]
    processes = processes if isinstance(tasks[0].model, str) else 1
    try:
        return sweep("training", learn, points, LEARNT, processes=processes), False
    except ExperimentInterrupted as stopped:
        return stopped.frame, True


def _by_way(
    tasks: Sequence[Task], found: Mapping[str, Option | str], learnt: pl.DataFrame, seeds: int
) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Evaluations of all ways; and a row for each with each learning rate, or with a reason."""
    question = tasks[0].question
    batches, parts = _batches(found, question), list[pl.DataFrame]()
    rows = list[dict[str, Any]]()
    for name, option in found.items():
        way = WAYS[name]
        row: dict[str, Any] = {"way": name, "system": way.system, "update": way.update}
        if isinstance(option, str):
            rows.append(row | {"reason": option})
            continue
        row["samples_share"] = question.share(option.learns_from)
        clock = Clock.of(question, option) if name in batches else None
        for task in tasks:
            own = learnt.filter(way=str(batches.get(name, name)), learning_rate=task.learning_rate)
            failed, reason = own["reason"].drop_nulls(), None
            if len(failed):
                reason = failed[0]
            elif own["seed"].n_unique() < seeds:
                reason = "interrupted before it was trained"
            rows.append(row | {"learning_rate": task.learning_rate, "reason": reason})
            if reason is None:
                own = own.with_columns(way=pl.lit(name))
                own = own if clock is None else own.with_columns(**clock.columns())
                parts.append(
                    own.select(pl.col(one).cast(kind) for one, kind in EVALUATIONS.items())
                )
    return pl.concat([pl.DataFrame(schema=EVALUATIONS), *parts]), rows


def learn(task: Task, way: str, batches: Batches | None, seed: int, **_: object) -> Any:
    """Rows of one training; or one with the reason why it failed."""
    try:
        if batches is not None:
            return sgd.learn(task, batches, seed)
        chosen = WAYS[way]
        return Training(task, chosen, chosen.find(task.question), seed).curve()
    except TrainingError as error:
        return {"reason": str(error).partition(" (")[0]}
    except (DivergedError, UserError) as error:
        return {"reason": str(error)}


def summary(
    evaluations: pl.DataFrame, rows: Sequence[Mapping[str, Any]], target_loss: float
) -> pl.DataFrame:
    """Rank ways by their time to a loss, each at its best learning rate; see `TrainedWays`."""
    each, at_s, top1 = [*KEYS, "seed"], pl.col("at_s"), pl.col("top1")
    met = evaluations.filter(pl.col("loss") <= target_loss)
    met = met.group_by(each, maintain_order=True).first()
    ends = evaluations.group_by(each, maintain_order=True).last()
    reached = met.group_by(KEYS, maintain_order=True).agg(
        reached=pl.len().cast(pl.Int64),
        to_loss_s=at_s.mean(),
        to_loss_s_min=at_s.min(),
        to_loss_s_max=at_s.max(),
        to_loss_bytes=pl.col("bytes").mean(),
        to_loss_samples=pl.col("samples").mean(),
    )
    ended = ends.group_by(KEYS, maintain_order=True).agg(
        seeds=pl.len().cast(pl.Int64),
        end_s=at_s.mean(),
        end_loss=pl.col("loss").mean(),
        end_top1=top1.mean(),
        end_top1_min=top1.min(),
        end_top1_max=top1.max(),
    )
    to_loss = [name for name in SUMMARY if name.startswith("to_loss")]
    own = {name: kind for name, kind in SUMMARY.items() if name in ROW}
    return (
        pl.DataFrame(rows, schema=own)
        .join(ended, on=KEYS, how="left", maintain_order="left")
        .join(reached, on=KEYS, how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("seeds").is_not_null()).then(pl.col("reached").fill_null(0)),
            pl.when(pl.col("reached") == pl.col("seeds")).then(pl.col(to_loss)),
        )
        .sort(
            pl.col("reason").is_not_null(),
            pl.col("to_loss_s").round_sig_figs(9),
            pl.col("end_loss"),
            nulls_last=True,
            maintain_order=True,
        )
        .unique("way", keep="first", maintain_order=True)
        .select(*SUMMARY)
    )


def default_target(evaluations: pl.DataFrame, rows: Sequence[Mapping[str, Any]]) -> float:
    """Loss behind `IMPROVEMENT` of what the best SGD on all samples improves, as a mean over seeds.

    Where none is trained, of what the best of all ways does.
    """
    if evaluations.is_empty():
        return 0.0
    whole = {row["way"] for row in rows if row["update"] == EQUAL and row.get("samples_share") == 1}
    of_sgd = evaluations.filter(pl.col("way").is_in(whole))
    first, least = pl.col("loss").first(), pl.col("loss").min()
    by_way = (
        (evaluations if of_sgd.is_empty() else of_sgd)
        .group_by([*KEYS, "seed"], maintain_order=True)
        .agg(first=first, least=least)
        .group_by(KEYS, maintain_order=True)
        .agg(pl.col("first", "least").mean())
    )
    best = by_way.sort("least", maintain_order=True).row(0, named=True)
    return float(best["first"] - IMPROVEMENT * (best["first"] - best["least"]))

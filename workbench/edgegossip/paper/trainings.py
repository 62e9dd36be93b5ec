"""Trainings in parallel, each made once in a process, and what follows from their frames.

Times are virtual seconds of the paper's size, which are the cost model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.edgegossip.paper.cases import (
    Case,
    Learning,
    deployed,
    learning_at,
    train,
)
from workbench.edgegossip.paper.testbed import DEFAULTS
from workbench.profiles import profile_model
from workbench.reproduction.claims import tolerance
from workbench.reproduction.scales import seeds_from
from workbench.reproduction.sweep import whole
from workbench.reproduction.trainings import SEEDS, Mean, of_whole_seeds, train_all, with_seeds
from workbench.utils.checks import check_name

if TYPE_CHECKING:
    from workbench.runtime import Fault


class Training(NamedTuple):
    """One training: all that decides its outcome, so that it is made once."""

    case: Case
    method: str
    learning: Learning
    faults: tuple[Fault, ...] = ()
    patience_s: float | None = None  # with others that may fail; None for ever

    @property
    def learnt_as(self) -> Training:
        """The training that learns the same: GoSGD's learning does not depend on times.

        All wait for their peers, so what is learnt does not depend on how long it takes.
        """
        if self.method != "gosgd" or self.patience_s is not None:
            return self
        same = Case(self.learning.learner, self.case.nodes, seed=self.case.seed)
        return self._replace(case=same)

    @property
    def work(self) -> tuple[float, bool]:
        """Order of lengths: operations, and whether all points are kept."""
        operations = profile_model(self.learning.learner).forward_flops * self.learning.epochs
        return operations, self.method == "gosgd"


def one_curve(*, training: Training) -> pl.DataFrame:
    """Evaluated epochs of a training, means over the platforms.

    ``at_s`` is the last platform's, ``kept`` the share of all samples that were learnt from.
    """
    case, method, learning, faults, patience_s = training
    trained = train(case, learning, method, faults=faults, patience_s=patience_s)
    whole(trained.run)  # half a training would compare nothing
    points = sum(deployed(case, len(learning.data.y_train)).points)
    return (
        trained.epochs.group_by("epoch", maintain_order=True)
        .agg(pl.col("at_s").max(), pl.col("top1").mean(), kept=pl.col("samples").sum() / points)
        .filter(pl.col("top1").is_not_null())
    )


CURVE: dict[str, Any] = {
    "reason": pl.String,
    "epoch": pl.Int64,
    **dict.fromkeys(("at_s", "top1", "kept"), pl.Float64),
}
_ABOUT: dict[str, Any] = {
    **dict.fromkeys(("model", "learner", "dataset"), pl.String),
    **dict.fromkeys(("train_samples", "test_samples", "platforms"), pl.Int64),
    **dict.fromkeys(("method", "technique"), pl.String),
    "ratio": pl.Float64,
    **dict.fromkeys(("strategy", "order"), pl.String),
    "imbalance": pl.Float64,
    "seed": pl.Int64,
}
_KEY = ("model", "platforms", "imbalance", "seed")
_OURS = ("technique", "ratio", "strategy", "order")


def trainings(
    title: str,
    cases: Sequence[Case],
    scale: str,
    seed: int = 1,
    dataset: str = "auto",
    *,
    seeds: int | None = None,
    processes: int | None = None,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Train each case with EdgeGossip and, once for those of equal times, with GoSGD.

    Each case is trained with `seeds` seeds (the scale's number by default) from `seed` on;
    `dataset` is as for `data_set`.

    A row per evaluated epoch of each training: ``model, learner, dataset, train_samples,
    test_samples, platforms, method`` (``gosgd``, ``edgegossip``), ``technique`` (null of GoSGD),
    ``ratio, strategy, order, imbalance, seed, reason, epoch, at_s`` (virtual seconds), ``top1``
    (mean over the platforms) and ``kept``, the share of samples learnt from. A training that
    diverged is one row with its ``reason``.
    """
    asked: dict[Training, dict[str, str]] = {}
    for case in with_seeds(cases, seeds_from(seed, seeds, SEEDS.at(scale))):
        learning = learning_at(scale, case, dataset)
        asked[Training(case._replace(how=DEFAULTS), "gosgd", learning)] = {}
        asked[Training(case, "edgegossip", learning)] = {}
    return train_each(title, asked, scale, processes, folder)


def train_each(
    title: str,
    asked: Mapping[Training, Mapping[str, str]],
    scale: str,
    processes: int | None,
    folder: Path | None,
) -> pl.DataFrame:
    """Rows of `trainings`, in the order asked for; columns of each training's own beside them."""
    wanted = list(dict.fromkeys(each.learnt_as for each in asked))
    wanted.sort(key=lambda each: each.work, reverse=True)  # so that none is long when others end
    points = [
        {
            "model": each.learning.learner,
            "method": each.method,
            "seed": each.case.seed,
            "number": number,
            "training": each,
        }
        for number, each in enumerate(wanted)
    ]

    def of_all_cases(learnt: pl.DataFrame) -> pl.DataFrame:
        by_number = learnt.partition_by("number", as_dict=True, include_key=False)
        curves = {wanted[number]: curve for (number,), curve in by_number.items()}
        finished = [each for each in asked if each.learnt_as in curves]
        rows = [
            _about(each, curves[each.learnt_as]).with_columns(
                pl.lit(value).alias(name) for name, value in asked[each].items()
            )
            for each in finished
        ]
        return pl.concat([pl.DataFrame(schema=_ABOUT | CURVE), *rows], how="diagonal")

    return train_all(
        title,
        one_curve,
        points,
        {"number": pl.Int64} | CURVE,
        scale=scale,
        labels=("model", "method", "seed", "number"),
        processes=processes,
        folder=folder,
        then=of_all_cases,
    )


def _about(training: Training, curve: pl.DataFrame) -> pl.DataFrame:
    """One training's curve, with its setting."""
    case, method, learning, _, patience_s = training
    points, plain = len(learning.data.y_train), method == "gosgd"
    if plain and patience_s is None:
        platforms = deployed(case, points, learning.points)
        rows = platforms.course(learning.epochs)
        ends_s = [
            max(row.end_s for row in rows[first : first + case.nodes])
            for first in range(0, len(rows), case.nodes)
        ]
        at_s = [None if epoch is None else ends_s[epoch - 1] for epoch in curve["epoch"]]
        curve = curve.with_columns(at_s=pl.Series(at_s, dtype=pl.Float64))
    about = {
        "model": case.model,
        "learner": learning.learner,
        "dataset": learning.data.name,
        "train_samples": points,
        "test_samples": len(learning.data.y_test),
        "platforms": case.nodes,
        "method": method,
        **{name: None if plain else getattr(case.how, name) for name in _OURS},
        "imbalance": max(case.slower or (1.0,)),
        "seed": case.seed,
    }
    return pl.DataFrame([about], schema=_ABOUT).join(curve, how="cross")


def named(model: str | None, among: Sequence[str]) -> Sequence[str]:
    """The models named, or all."""
    return among if model is None else [check_name("model", model, among)]


def final(frame: pl.DataFrame) -> pl.DataFrame:
    """Last epoch of each training: time and accuracy of GoSGD and EdgeGossip side by side.

    A row per training of EdgeGossip: its setting, ``gosgd_top1, top1, lost_points`` (GoSGD's
    accuracy less EdgeGossip's, percentage points), ``gosgd_s, at_s`` and ``speedup``.
    """
    last = frame.filter(pl.col("epoch") == pl.col("epoch").max().over("model", "platforms"))
    plain = last.filter(method="gosgd").select(*_KEY, gosgd_top1="top1", gosgd_s="at_s")
    return (
        last.filter(method="edgegossip")
        .join(plain, on=_KEY)
        .with_columns(
            lost_points=100 * (pl.col("gosgd_top1") - pl.col("top1")),
            speedup=pl.col("gosgd_s") / pl.col("at_s"),
        )
    )


def seconds_until(frame: pl.DataFrame, percents: Sequence[float]) -> pl.DataFrame:
    """Seconds until accuracies are first reached, by method and way to choose samples.

    A row per ``method, strategy, order``, with a column for each of `percents`: the mean over the
    seeds, null where one of them does not get there.
    """
    by = ["method", "strategy", "order"]

    def first_s(percent: float) -> pl.Expr:
        reached = pl.col("top1") >= percent / 100 - 1e-9  # a ratio of samples, met exactly
        return pl.col("at_s").filter(reached).min().alias(f"{percent:g} %")

    seeds = frame.group_by(*by, "seed", maintain_order=True).agg(map(first_s, percents))
    return seeds.group_by(by, maintain_order=True).agg(_mean_of_all(pl.all().exclude(*by, "seed")))


def _mean_of_all(column: pl.Expr) -> pl.Expr:
    """Mean; null where a value is missing, which would bias it."""
    return pl.when(column.null_count() == 0).then(column.mean())


def table(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Means over the seeds of each training's last epoch, and the spread of what is lost."""
    lost = pl.col("lost_points")
    return (
        final(frame)
        .group_by(*by, maintain_order=True)
        .agg(
            learner=pl.col("learner").unique().sort().str.join(", "),
            seeds=pl.col("seed").n_unique(),
            gosgd_percent=100 * pl.col("gosgd_top1").mean(),
            edgegossip_percent=100 * pl.col("top1").mean(),
            lost_points=lost.mean(),
            spread_points=lost.std(),
            speedup=pl.col("speedup").mean(),
            kept=pl.col("kept").mean(),
        )
    )


BELOW_POINTS = 3.0
"""So far below GoSGD's last accuracy is what both have to reach."""


def seconds_to_accuracy(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Seconds until GoSGD's last accuracy less `BELOW_POINTS`, with GoSGD and with EdgeGossip.

    Speed-ups over equal epochs favour learning from less; this does not. Seconds are those of the
    first evaluated epoch with that accuracy.

    A row per case, which the columns `by` identify: ``seeds``, ``wanted_percent``, ``gosgd_s``,
    ``edgegossip_s`` and ``times_as_fast``: means over the seeds, null where one of them does not
    get there.
    """
    wanted = final(frame).select(*_KEY, *_OURS, wanted=pl.col("gosgd_top1") - BELOW_POINTS / 100)
    there = pl.col("top1") >= pl.col("wanted") - 1e-9  # a difference of floats, met exactly
    seconds = wanted
    for method, key in (("gosgd", _KEY), ("edgegossip", (*_KEY, *_OURS))):
        curves = frame.filter(method=method).select(*key, "at_s", "top1")
        reached = (
            wanted.join(curves, on=key, nulls_equal=True)
            .filter(there)
            .group_by(*_KEY, *_OURS)
            .agg(pl.col("at_s").min().alias(f"{method}_s"))
        )
        seconds = seconds.join(
            reached, on=[*_KEY, *_OURS], how="left", nulls_equal=True, maintain_order="left"
        )
    return (
        seconds.group_by(*by, maintain_order=True)
        .agg(
            seeds=pl.col("seed").n_unique(),
            wanted_percent=100 * pl.col("wanted").mean(),
            gosgd_s=_mean_of_all(pl.col("gosgd_s")),
            edgegossip_s=_mean_of_all(pl.col("edgegossip_s")),
        )
        .with_columns(times_as_fast=pl.col("gosgd_s") / pl.col("edgegossip_s"))
    )


of_enough_seeds = of_whole_seeds(3)  # fewer trainings say nothing about accuracy

SIMILAR, SLIGHT = 1 + tolerance("x", 1.0), tolerance("percentage points", 0.0)
"""Times within this factor are similar; accuracies within these points differ slightly."""

ROUNDING = 1e-9  # sums of equal accuracies may differ in their last bits


def signed(mean: Mean) -> str:
    """Write a mean difference to a hundredth, and whether chance alone may have made it."""
    shown = f"{mean.value:+.2f}"
    if mean.error is None:
        return f"{shown} (one seed)"
    if abs(mean.value) <= ROUNDING:
        return f"{shown} ± {mean.error:.2f} (a tie)"
    return f"{shown} ± {mean.error:.2f}{' (within noise)' if abs(mean.value) < mean.error else ''}"

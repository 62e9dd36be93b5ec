"""Figs. 5, 6, 12 and 13 and more: trainings on the simulated testbed, in parallel.

Each training is made once in a process, whichever figures need it. Times are virtual seconds of the
paper's size, which are the cost model's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.checks import check_whole
from workbench.edgegossip.aggregation.costs import SELECTED
from workbench.edgegossip.algorithms import STRATEGIES
from workbench.edgegossip.costs.course import selecting_share, total_s
from workbench.edgegossip.paper.experiments import scales
from workbench.edgegossip.paper.experiments.cases import (
    Case,
    Learning,
    curve,
    deployed,
    epoch_ends_s,
    learning_at,
    train,
)
from workbench.edgegossip.paper.frames import final
from workbench.edgegossip.paper.testbed import IMBALANCES, MODELS, RATIOS
from workbench.experiments import computed, keeping, sweep, whole
from workbench.names import check_name
from workbench.profiles import profile_model
from workbench.runtime import Crash, Restart, SlowDown
from workbench.training import TrainingError

if TYPE_CHECKING:
    from workbench.runtime import Fault


class Training(NamedTuple):
    """One training: all that decides its outcome, so that it is made once."""

    case: Case
    method: str
    learning: Learning

    @property
    def learnt_as(self) -> Training:
        """The training that learns the same: GoSGD's learning does not depend on times.

        All wait for their peers, so what is learnt does not depend on how long it takes.
        """
        if self.method != "gosgd":
            return self
        same = Case(self.learning.learner, self.case.nodes, seed=self.case.seed)
        return self._replace(case=same)

    @property
    def work(self) -> tuple[float, bool]:
        """Order of lengths: operations, and whether all points are kept."""
        operations = profile_model(self.learning.learner).forward_flops * self.learning.epochs
        return operations, self.method == "gosgd"


def _curve(
    *,
    training: Training,
    faults: tuple[Fault, ...] = (),
    patience_s: float | None = None,
    **_: object,
) -> pl.DataFrame:
    case, method, learning = training
    trained = train(case, learning, method, faults=faults, patience_s=patience_s)
    whole(trained.run)  # half a training would compare nothing
    held = deployed(case, len(learning.data.y_train)).points
    return curve(trained, sum(held)).drop("loss")


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


def trainings(
    title: str,
    cases: Sequence[Case],
    scale: str,
    *,
    seed: int,
    dataset: str,
    seeds: int | None = None,
    then: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
) -> pl.DataFrame:
    """Train each case with EdgeGossip and, once for those of equal times, with GoSGD.

    Each case is trained with `seeds` seeds (the scale's number by default) from `seed` on;
    `dataset` is as for `data_set`, `then` as for `workbench.experiments.sweep`.

    A row per evaluated epoch of each training: ``model, learner, dataset, train_samples,
    test_samples, platforms, method`` (``gosgd``, ``edgegossip``), ``technique`` (null of GoSGD),
    ``ratio, strategy, order, imbalance, seed, reason, epoch, at_s`` (virtual seconds), ``top1``
    (mean over the platforms) and ``kept``, the share of samples learnt from. A training that
    diverged is one row with its ``reason``.
    """
    asked: list[Training] = []
    count = scales.SEEDS.at(scale) if seeds is None else check_whole("seeds", seeds, 1)
    for of_seed, case in product(range(seed, seed + count), cases):
        one = case._replace(seed=of_seed)
        plain = Case(one.model, one.platforms, seed=of_seed, slower=one.slower, learner=one.learner)
        learning = learning_at(scale, one, dataset)
        asked += [Training(plain, "gosgd", learning), Training(one, "edgegossip", learning)]
    asked = list(dict.fromkeys(asked))
    wanted = list(dict.fromkeys(one.learnt_as for one in asked))
    wanted.sort(key=lambda one: one.work, reverse=True)  # so that none is long when others are done
    points = [
        {
            "model": one.learning.learner,
            "method": one.method,
            "seed": one.case.seed,
            "training": one,
        }
        for one in wanted
    ]
    curves: dict[Training, pl.DataFrame] = {}
    with keeping(lambda: then(_rows(asked, curves))):
        for at, rows in computed(
            title,
            _curve,
            points,
            processes=scales.PROCESSES.at(scale),
            remember=True,
            failures=TrainingError,
        ):
            curves[wanted[at]] = pl.DataFrame(rows, schema=CURVE)
    return then(_rows(asked, curves))


def _rows(asked: Sequence[Training], curves: Mapping[Training, pl.DataFrame]) -> pl.DataFrame:
    """Curves of the finished trainings; the columns alone, if none."""
    found = [pl.DataFrame(schema=_ABOUT | CURVE)]
    found += [_about(one, curves[one.learnt_as]) for one in asked if one.learnt_as in curves]
    return pl.concat(found)


def _about(training: Training, curve: pl.DataFrame) -> pl.DataFrame:
    """One training's curve, with its setting."""
    case, method, learning = training
    points, plain = len(learning.data.y_train), method == "gosgd"
    if plain:
        ends_s = epoch_ends_s(deployed(case, points).course(learning.epochs))
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
        "technique": None if plain else case.technique,
        "ratio": None if plain else case.ratio,
        "strategy": None if plain else case.strategy,
        "order": None if plain else case.order,
        "imbalance": max(case.slower) if case.slower else 1.0,
        "seed": case.seed,
    }
    return pl.DataFrame([about], schema=_ABOUT).join(curve, how="cross")


def fig5(
    scale: str = "default",
    seed: int = 1,
    dataset: str = "auto",
    *,
    seeds: int | None = None,
    model: str | None = None,
) -> pl.DataFrame:
    """Accuracy against training time on the first deployment, by model and technique (Fig. 5).

    Of all four models, or of one. Deviation: below scale ``paper`` LeNet-5 learns in the place of
    the others (at ``smoke`` a small AlexNet in that of AlexNet), with the times of these and hence
    their ratios; and only some models are trained with all three techniques.

    As `trainings` gives it.
    """
    all_techniques = scales.ALL_TECHNIQUES.at(scale)
    cases = [
        Case(one, technique=technique)
        for one in _named(model, MODELS)
        for technique in (SELECTED if one in all_techniques else SELECTED[:1])
    ]
    return trainings("Figure 5", cases, scale, seed=seed, dataset=dataset, seeds=seeds)


def _named(model: str | None, among: Sequence[str]) -> Sequence[str]:
    return among if model is None else [check_name("model", model, among)]


def fig6_accuracy(
    scale: str = "default",
    seed: int = 1,
    dataset: str = "auto",
    *,
    seeds: int | None = None,
    model: str | None = None,
    platforms: int | None = None,
) -> pl.DataFrame:
    """Accuracy on larger deployments, LeNet-5 and AlexNet, or one of them; columns as in `fig5`.

    On all deployments of the scale, or with so many platforms alone.
    """
    counts = scales.LARGER.at(scale)
    if platforms is not None:
        counts = (check_whole("platforms", platforms, 1),)
    cases = [Case(one, count) for count in counts for one in _named(model, MODELS[:2])]
    return trainings("Figure 6", cases, scale, seed=seed, dataset=dataset, seeds=seeds)


def fig12(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """LeNet-5 on four CPU platforms, two of them 1, 3 and 5 times slower (Fig. 12).

    Deviation: the paper has fast CPU platforms 3 and 5 times as fast as slow platforms, and says
    neither how many nor what becomes of those with GPUs; here the factors are all that differs.

    As `with_overheads` gives it.
    """
    cases = [
        Case("lenet5", ("cpu",) * 4, slower=(1.0, 1.0, factor, factor)) for factor in IMBALANCES
    ]
    then = partial(with_overheads, cases=cases)
    return trainings("Figure 12", cases, scale, seed=seed, dataset=dataset, seeds=seeds, then=then)


def fig13(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """LeNet-5 by aggregation ratio (Fig. 13); columns as in `fig12`."""
    cases = [Case("lenet5", ratio=ratio) for ratio in RATIOS]
    then = partial(with_overheads, cases=cases)
    return trainings("Figure 13", cases, scale, seed=seed, dataset=dataset, seeds=seeds, then=then)


def strategies(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Strategies to choose samples, by LeNet-5 on MobileNet-v2's times; columns as in `fig5`.

    Not in the paper: its ranking beside choosing at random or by each point's own loss, and
    learning in the order of the ranking.
    """
    case = Case(MODELS[3], learner=MODELS[0])
    cases = [case._replace(strategy=name) for name in STRATEGIES]
    cases.append(case._replace(order="ranked"))
    return trainings("Strategies", cases, scale, seed=seed, dataset=dataset, seeds=seeds)


_OVERHEADS_OF = {"ratio": pl.Float64(), "imbalance": pl.Float64(), "seed": pl.Int64()}
_OVERHEADS = _OVERHEADS_OF | dict.fromkeys(
    ("aggregating_s", "ranking_s", "slowest_ranking_percent"), pl.Float64()
)


def with_overheads(frame: pl.DataFrame, cases: Sequence[Case]) -> pl.DataFrame:
    """Add to trainings what aggregating and ranking take in them, by the cost model's course.

    It equals the simulation where a platform has at least as many aggregated points as classes;
    fewer are not made, since none holds two classes. No two `cases` have the same ratio and
    imbalance.

    Added columns: ``aggregating_s`` (once, longest of all platforms), ``ranking_s`` (mean of a
    platform's epochs after the first) and ``slowest_ranking_percent``, ranking over the time at
    work on the platforms with the longest t_0; null of GoSGD.
    """
    by_case = {(one.ratio, max(one.slower or (1.0,))): one for one in cases}
    ours = frame.filter(method="edgegossip").drop_nulls("epoch")
    key = list(_OVERHEADS_OF)
    trained = ours.group_by(*key, "train_samples", maintain_order=True).agg(pl.col("epoch").max())
    rows = [
        (ratio, imbalance, seed, *_overheads(by_case[ratio, imbalance], seed, points, epochs))
        for ratio, imbalance, seed, points, epochs in trained.iter_rows()
    ]
    added = pl.DataFrame(rows, schema=_OVERHEADS, orient="row")
    return frame.join(added, on=key, how="left", maintain_order="left")


def _overheads(case: Case, seed: int, points: int, epochs: int) -> tuple[float, float, float]:
    deployment = deployed(case._replace(seed=seed), points)
    adds = deployment.aggregating(case.technique, case.ratio, case.balancer)
    platforms = deployment.platforms
    aggregating_s = max(
        one.speed.seconds_for(seconds, 0.0)
        for one, seconds in zip(platforms, adds.generation_s, strict=True)
    )
    later = [one for one in deployment.course(max(epochs, 2), adds) if one.epoch > 1]
    longest_s = max(one.predictor.baseline_s for one in platforms)
    slowest = [one for one in later if platforms[one.node].predictor.baseline_s == longest_s]
    share = selecting_share(slowest, waiting=False)
    return aggregating_s, fmean(one.select_s for one in later), 100 * share


DROPOUTS = {
    **dict.fromkeys(("scenario", "method"), pl.String),
    "platforms": pl.Int64,
    **dict.fromkeys(("dataset", "learner"), pl.String),
    **dict.fromkeys(("train_samples", "seed"), pl.Int64),
    **CURVE,
}


def dropouts(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """LeNet-5 on ten platforms of which some fail, with both methods.

    Not in the paper, which cites drop-outs of 6 to 10 % and leaves the handling open: ``one comes
    back`` (10 %: meanwhile its points are left out), ``two leave`` (20 %: the others take their
    points over), ``one slows down``, three times.

    A row per evaluated epoch: ``scenario, method, platforms, dataset, learner, train_samples, seed,
    reason, epoch, at_s, top1, kept``.
    """
    case = Case(MODELS[0], 10, seed=seed)
    learning = learning_at(scale, case, dataset)
    learning = learning._replace(epochs=5 * scales.LEARNERS.at(scale)[MODELS[0]].epochs // 4)
    points = len(learning.data.y_train)
    epoch_s = total_s(deployed(case, points).course(learning.epochs)) / learning.epochs
    asked = [
        {
            "scenario": scenario,
            "method": method,
            "training": Training(case, method, learning),
            "faults": faults,
        }
        for scenario, faults in _scenarios(epoch_s).items()
        for method in ("gosgd", "edgegossip")
    ]
    shared = {
        "platforms": case.nodes,
        "dataset": learning.data.name,
        "learner": learning.learner,
        "train_samples": points,
        "seed": seed,
        "patience_s": epoch_s,
    }
    processes = scales.PROCESSES.at(scale)
    return sweep(
        "Drop-outs",
        _curve,
        asked,
        DROPOUTS,
        shared=shared,
        processes=processes,
        remember=True,
        failures=TrainingError,
    )


def _scenarios(epoch_s: float) -> dict[str, tuple[Fault, ...]]:
    """Faults by name; `epoch_s` is about an epoch of GoSGD."""
    at_s = 1.3 * epoch_s
    return {
        "nobody fails": (),
        "two leave": (Crash(1, at_s), Crash(7, at_s)),
        "one comes back": (Crash(1, at_s), Restart(1, at_s + 2 * epoch_s)),
        "one slows down": (SlowDown(1, at_s, 1e9, 3.0),),
    }


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

_KEY = ("model", "platforms", "imbalance", "seed")
_OURS = ("technique", "ratio", "strategy", "order")


def seconds_to_accuracy(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Seconds until GoSGD's last accuracy less `BELOW_POINTS`, with GoSGD and with EdgeGossip.

    Speed-ups over equal epochs favour learning from less; this does not. Seconds are those of the
    first evaluated epoch with that accuracy.

    A row per case: those columns, ``seeds``, ``wanted_percent``, ``gosgd_s``, ``edgegossip_s`` and
    ``times_as_fast``: means over the seeds, null where one of them does not get there.

    Parameters
    ----------
    frame
        As `trainings` returns it.
    by
        Columns that identify a case.
    """
    wanted = final(frame).select(*_KEY, *_OURS, wanted=pl.col("gosgd_top1") - BELOW_POINTS / 100)
    there = pl.col("top1") >= pl.col("wanted") - 1e-9  # a difference of floats, met exactly
    found = wanted
    for method, key in (("gosgd", _KEY), ("edgegossip", (*_KEY, *_OURS))):
        curves = frame.filter(method=method).select(*key, "at_s", "top1")
        reached = (
            wanted.join(curves, on=key, nulls_equal=True)
            .filter(there)
            .group_by(*_KEY, *_OURS)
            .agg(pl.col("at_s").min().alias(f"{method}_s"))
        )
        found = found.join(
            reached, on=[*_KEY, *_OURS], how="left", nulls_equal=True, maintain_order="left"
        )
    return (
        found.group_by(*by, maintain_order=True)
        .agg(
            seeds=pl.col("seed").n_unique(),
            wanted_percent=100 * pl.col("wanted").mean(),
            gosgd_s=_mean_of_all("gosgd_s"),
            edgegossip_s=_mean_of_all("edgegossip_s"),
        )
        .with_columns(times_as_fast=pl.col("gosgd_s") / pl.col("edgegossip_s"))
    )


def _mean_of_all(column: str) -> pl.Expr:
    """Mean; null where one is missing, which would bias it."""
    one = pl.col(column)
    return pl.when(one.null_count() == 0).then(one.mean())

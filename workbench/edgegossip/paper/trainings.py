"""Many trainings for a figure: beside each other in processes, each made once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import polars as pl

from workbench import datasets, parallel
from workbench.datasets import Dataset
from workbench.edgegossip.paper import simulations
from workbench.edgegossip.paper.scales import SCALES, Learner, Scale, learnt_from
from workbench.edgegossip.paper.simulations import Case, Learning
from workbench.interrupted import keeping
from workbench.names import choose
from workbench.profiles import profile_model
from workbench.runtime import progress


class Training(NamedTuple):
    """One training: what decides its outcome, so that no other need be made of it.

    Attributes
    ----------
    case, method
        What is trained, with GoSGD or EdgeGossip.
    learner
        What learns.
    source, samples, test_samples
        From what, at most so many.
    evaluate_every
        Epochs from one evaluation to the next.
    """

    case: Case
    method: str
    learner: Learner
    source: str
    samples: int | None
    test_samples: int | None
    evaluate_every: int

    @property
    def learning(self) -> Learning:
        """What learns, and for how long."""
        return Learning(
            self.learner.model,
            data(self.source, self.samples, self.test_samples),
            self.learner.epochs_on(self.case.nodes),
            self.learner.batch_size,
            self.learner.learning_rate,
            self.evaluate_every,
        )

    @property
    def learnt_as(self) -> Training:
        """The training that teaches the same: GoSGD's learning is that of any times.

        All wait for all, so what is learnt does not depend on how long it takes.
        """
        if self.method != "gosgd":
            return self
        same = Case(self.learner.model, self.case.nodes, seed=self.case.seed)
        return self._replace(case=same)

    def curve(self) -> pl.DataFrame:
        """Run it; as `simulations.curve`."""
        learning = self.learning
        trained = simulations.train(self.case, learning, self.method)
        if trained.run.interrupted:
            raise KeyboardInterrupt  # half a training would compare nothing
        return simulations.curve(trained, len(learning.data.y_train))


_DONE: dict[Training, pl.DataFrame] = {}


def clear() -> None:
    """Forget trainings that were kept for other figures."""
    _DONE.clear()
    data.cache_clear()


@lru_cache(maxsize=8)
def data(source: str, samples: int | None, test_samples: int | None) -> Dataset:
    """Load a data set, cut to so many samples."""
    return datasets.load(source).limit(train=samples, test=test_samples)


_NULLABLE = {
    **dict.fromkeys(("technique", "strategy", "order"), pl.String()),
    "ratio": pl.Float64(),
}  # of GoSGD there is none
_NOTHING = pl.DataFrame(
    schema={"epoch": pl.Int64(), "at_s": pl.Float64(), "top1": pl.Float64(), "kept": pl.Float64()}
)


def trainings(
    title: str, scale: str, seed: int, dataset: str, cases: Sequence[Case]
) -> pl.DataFrame:
    """Train each case with EdgeGossip and, once for those of equal times, with GoSGD.

    Parameters
    ----------
    title
        For the progress shown meanwhile.
    scale, seed, dataset
        A name in `SCALES`; of the first training; a name for `datasets.load`, or "auto".
    cases
        Their seed is replaced by each in turn.

    Returns
    -------
    polars.DataFrame
        A row per evaluated epoch of each training: ``model, learner, dataset, train_samples,
        test_samples, platforms, method`` (``gosgd``, ``edgegossip``), ``technique`` (null of
        GoSGD), ``ratio, strategy, order, imbalance, seed, epoch, at_s`` (virtual seconds), ``top1``
        (mean over the platforms) and ``kept``, the share of samples learnt from.

    Raises
    ------
    workbench.interrupted.ExperimentInterrupted
        At Ctrl-C, with the finished trainings; asked again, it goes on behind them.
    """
    sizes = choose("scale", scale, SCALES)
    asked: list[Training] = []
    for of_seed in range(seed, seed + sizes.seeds):
        for case in cases:
            one = case._replace(seed=of_seed)
            plain = Case(one.model, one.platforms, seed=of_seed, slower=one.slower)
            asked.append(_training(plain, "gosgd", sizes, learnt_from(scale, one.model, dataset)))
            asked.append(_training(one, "edgegossip", sizes, asked[-1].source))
    asked = list(dict.fromkeys(asked))
    missing = [one for one in dict.fromkeys(each.learnt_as for each in asked) if one not in _DONE]
    missing.sort(key=_work, reverse=True)  # so that none is long when the others are through
    with keeping(lambda: _rows(asked)), progress.steps(title, len(missing)) as told:
        calls = [(one,) for one in missing]
        for at, curve in parallel.as_finished(Training.curve, calls, sizes.processes):
            done = missing[at]
            _DONE[done] = curve
            told(f"{done.learner.model}, {done.method}, seed {done.case.seed}")
    return _rows(asked)


def _work(training: Training) -> tuple[float, bool]:
    """What tells long trainings from short ones: operations, and whether all points are kept."""
    learner = training.learner
    operations = profile_model(learner.model).forward_flops * learner.epochs_on(training.case.nodes)
    return operations, training.method == "gosgd"


def _training(case: Case, method: str, sizes: Scale, source: str) -> Training:
    learner = sizes.learners[case.model]
    return Training(
        case, method, learner, source, sizes.samples, sizes.test_samples, sizes.evaluate_every
    )


def _rows(asked: Sequence[Training]) -> pl.DataFrame:
    """Curves of the trainings that are there; the columns, where there are none."""
    there = [(one, _DONE[one.learnt_as]) for one in asked if one.learnt_as in _DONE]
    return pl.concat([_about(*one) for one in there or [(asked[0], _NOTHING)]])


def _about(training: Training, curve: pl.DataFrame) -> pl.DataFrame:
    """One training's curve, with what it is of."""
    case, learning = training.case, training.learning
    points, plain = len(learning.data.y_train), training.method == "gosgd"
    if plain:
        ends = simulations.epoch_ends(simulations.deployed(case, points).course(learning.epochs))
        at_s = pl.Series([ends[epoch - 1] for epoch in curve["epoch"]], dtype=pl.Float64)
        curve = curve.with_columns(at_s=at_s)
    about = {
        "model": case.model,
        "learner": training.learner.model,
        "dataset": learning.data.name,
        "train_samples": points,
        "test_samples": len(learning.data.y_test),
        "platforms": case.nodes,
        "method": training.method,
        "technique": None if plain else case.technique,
        "ratio": None if plain else case.ratio,
        "strategy": None if plain else case.strategy,
        "order": None if plain else case.order,
        "imbalance": max(case.slower) if case.slower else 1.0,
        "seed": case.seed,
    }
    row = pl.DataFrame([about], schema_overrides=_NULLABLE)
    return row.join(curve.select(*_NOTHING.columns), how="cross")


def final(frame: pl.DataFrame) -> pl.DataFrame:
    """Last epoch of each training: time and accuracy of GoSGD and EdgeGossip side by side.

    Parameters
    ----------
    frame
        As `trainings` returns it.

    Returns
    -------
    polars.DataFrame
        A row per training of EdgeGossip: what it is of, ``gosgd_top1, top1, lost_points`` (GoSGD's
        accuracy less EdgeGossip's, percentage points), ``gosgd_s, at_s`` and ``speedup``.
    """
    last = frame.filter(pl.col("epoch") == pl.col("epoch").max().over("model", "platforms"))
    key = ["model", "platforms", "imbalance", "seed"]
    plain = last.filter(method="gosgd").select(*key, gosgd_top1="top1", gosgd_s="at_s")
    return (
        last.filter(method="edgegossip")
        .join(plain, on=key)
        .with_columns(
            lost_points=100 * (pl.col("gosgd_top1") - pl.col("top1")),
            speedup=pl.col("gosgd_s") / pl.col("at_s"),
        )
    )


def table(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """`final` over the seeds: means, and the spread of what is lost (standard deviation)."""
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

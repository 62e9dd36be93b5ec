"""Trainings of several cases as one frame: what each is, and its curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from workbench.dlion import training
from workbench.dlion.algorithms.hop import STALENESS
from workbench.dlion.paper.cases import AT_DEFAULT, LEARNING, Case, Learning, run
from workbench.reproduction.figure import Figure
from workbench.reproduction.points import Rows
from workbench.reproduction.scales import Scaled, processes_at, seeds_from
from workbench.reproduction.sweep import sweep
from workbench.training import TrainingError

CURVE: dict[str, Any] = {
    "reason": pl.String,
    **dict.fromkeys(("at_s", "top1", "top1_sd", "loss", "iterations", "mbytes"), pl.Float64),
    "global_batch": pl.Int64,
}
"""Of a curve: means over workers, and their standard deviation; what was sent by then; the largest
global batch so far, of the learner's samples."""

ABOUT: dict[str, Any] = {
    **dict.fromkeys(("system", "environment"), pl.String),
    "seed": pl.Int64,
    "techniques": pl.String,
    "n": pl.Float64,
    "accumulate": pl.Boolean,
    "weighting": pl.String,
    **dict.fromkeys(("growth_epochs", "period"), pl.Int64),
    "share": pl.Float64,
    "whom": pl.String,
    "early": pl.Int64,
    **dict.fromkeys(("candidate", "first_weights"), pl.String),
    "synchronous": pl.Boolean,
    "staleness": pl.Int64,
    **dict.fromkeys(("classes", "workers"), pl.Int64),
    "times_as_long": pl.Float64,
    **dict.fromkeys(("learner", "timed"), pl.String),
    "stands_for": pl.Float64,
    "dataset": pl.String,
    **dict.fromkeys(("train_samples", "test_samples"), pl.Int64),
    "seconds": pl.Float64,
}


def about(case: Case, learning: Learning) -> Mapping[str, Any]:
    """What a row says of its training."""
    return {
        **case._asdict(),
        "techniques": None if case.techniques is None else " + ".join(case.techniques),
        "staleness": STALENESS if case.system == "hop" else None,
        "learner": learning.learner.model,
        "timed": learning.learner.timed,
        "stands_for": learning.learner.stands_for,
        "dataset": learning.data.name,
        "train_samples": len(learning.data.y_train),
        "test_samples": len(learning.data.y_test),
        "seconds": learning.seconds * case.times_as_long,
    }


def of_present_hop(frame: pl.DataFrame) -> pl.DataFrame:
    """Leave out trainings of Hop that were recorded while it waited in every iteration.

    Their rows say of no bound (``staleness``) how far workers may be apart.
    """
    bound = pl.col("staleness") if "staleness" in frame.columns else pl.lit(None, pl.Int64)
    return frame.filter((pl.col("system") != "hop") | bound.is_not_null())


def curve(done: training.Trained, seconds: float, points: int) -> pl.DataFrame:
    """Rows at equal steps of time: of each worker the newest evaluation by then.

    That is up to `evaluate_every` iterations old, so that a curve shows an accuracy as much later
    than it was reached.
    """
    evaluations = done.evaluations.sort("at_s", maintain_order=True)  # of equal times the last
    workers = len(done.weights)
    rows = []
    for at in range(points):
        end_s = seconds * (at + 1) / points
        known = evaluations.filter(pl.col("at_s") <= end_s)
        newest = known.group_by("node").last().sort("node")  # sums depend on the order
        finished = done.iterations.filter(pl.col("at_s") <= end_s)
        sent = done.transfers.filter(pl.col("at_s") <= end_s)
        whole_round = len(newest) == workers
        rows.append(
            {
                "at_s": end_s,
                "top1": newest["top1"].mean() if whole_round else None,
                "top1_sd": newest["top1"].std() if whole_round else None,
                "loss": newest["loss"].mean() if whole_round else None,
                "iterations": len(finished) / workers,
                "mbytes": int(sent["bytes"].sum()) / 1e6,
                "global_batch": finished["global_batch"].max(),
            }
        )
    return pl.DataFrame(rows, schema={name: CURVE[name] for name in list(CURVE)[1:]})


SEEDS = Scaled(smoke=1, default=1, paper=3)
SIZES: Mapping[str, Scaled[Any]] = {"learning": LEARNING, "usual_seeds": SEEDS}
Trained = partial(Figure, sizes=SIZES, recorded=True, data=("cifar10",), data_at_default=AT_DEFAULT)
Learnt = partial(Trained, needs_paper_size=True)
"""Figures that train: of our own, and those whose claims only trainings as large decide."""


class Group(NamedTuple):
    """Cases, and what their rows have in more columns, or in place of what they say themselves."""

    cases: Sequence[Case]
    columns: Mapping[str, str]


def trained(
    title: str,
    cases: Sequence[Case] | Sequence[Group],
    *,
    scale: str,
    learning: Learning,
    usual_seeds: int,
    seed: int = 1,
    dataset: str = "auto",
    seeds: int | None = None,
    processes: int | None = None,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Train each case with this many seeds from `seed` on; a row per instant of each training."""
    frames, chosen = [], seeds_from(seed, seeds, usual_seeds)
    groups: Any = cases if isinstance(cases[0], Group) else [Group(cases, {})]  # type: ignore[arg-type]
    for group in groups:
        points = [
            {"system": case.system, "environment": case.environment, "seed": one, "case": case}
            for one in chosen
            for case in (each._replace(seed=one) for each in dict.fromkeys(group.cases))
        ]
        frame = sweep(
            measured,
            points,
            ABOUT | CURVE,
            title=title,
            shared={"learning": learning.of(scale, dataset)},
            labels=("system", "environment", "seed"),
            processes=processes_at(scale, processes),
            folder=folder,
            cache=TRAINED,
        )
        frames.append(
            frame.with_columns(pl.lit(one).alias(name) for name, one in group.columns.items())
        )
    return pl.concat(frames)


TRAINED: dict[str, Rows] = {}
"""Rows of trainings of this process, which several figures share, by their calls."""


def measured(*, case: Case, learning: Learning) -> list[dict[str, Any]]:
    """A training's rows; of one that failed, what it is and why."""
    try:
        done = run(case, learning)
    except TrainingError as error:
        return [{**about(case, learning), "reason": str(error)}]
    rows = curve(done, learning.seconds * case.times_as_long, learning.instants).to_dicts()
    return [{**about(case, learning), **row} for row in rows]

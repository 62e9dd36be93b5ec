"""Answers by rows of trainings: which rows count, and DLion's gains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

import polars as pl

from workbench.dlion.paper.cases import CURVE
from workbench.reproduction.claims import Answer
from workbench.reproduction.figure import Answering
from workbench.reproduction.trainings import learnt_data, of_whole_seeds

STATED_TARGET = 0.7
"""Accuracy that Figs. 9a and 14 wait for."""

Counting = Callable[[pl.DataFrame], pl.DataFrame]
"""The row of each training that counts: `final`, or `highest`."""


def final(frame: pl.DataFrame) -> pl.DataFrame:
    """The last row of each training that ended well."""
    return frame.filter(pl.col("top1").is_not_null() & (pl.col("at_s") >= pl.col("seconds")))


def highest(frame: pl.DataFrame) -> pl.DataFrame:
    """The row in which each training that ended well was most accurate, the first of equal ones.

    An accuracy is the mean over workers.
    """
    by = ("system", "environment", "seed")
    ended = frame.join(final(frame).select(by), on=by, how="semi").drop_nulls("top1")
    return ended.sort("top1", "at_s", descending=[True, False]).unique(
        by, keep="first", maintain_order=True
    )


def usual(column: str, value: object) -> pl.Expr:
    """Whether a case leaves a value as it is, or states the usual one."""
    return pl.col(column).is_null() | (pl.col(column) == value)


def target_of(frame: pl.DataFrame) -> float:
    """Accuracy to wait for: the paper's 70 %, or what all trainings of a frame reach if less."""
    training = [column for column in frame.columns if column not in CURVE]
    best = frame.group_by(training).agg(pl.col("top1").max())["top1"]
    least = best.drop_nulls().min()
    return min(STATED_TARGET, float(least) if isinstance(least, int | float) else 0.0)


def gains(
    frame: pl.DataFrame, environments: Sequence[str], system: str, counting: Counting = final
) -> list[float]:
    """Percent by which DLion is more accurate, by seed: means over environments.

    Of the seeds that all environments have. Deviation: a gain is of a seed, so that the spread is
    known; the paper's are of mean accuracies, as its figures are means of three runs (Sec. 5.1.4).
    """
    rows = counting(frame).filter(pl.col("environment").is_in(environments))
    key = ("environment", "seed")
    dlion = rows.filter(system="dlion").select(*key, dlion="top1")
    by_seed = (
        rows.filter(system=system)
        .join(dlion, on=key)
        .group_by("seed", maintain_order=True)
        .agg(gain=100 * (pl.col("dlion") / pl.col("top1") - 1).mean(), environments=pl.len())
    )
    return by_seed.filter(environments=len(environments)).sort("seed")["gain"].to_list()


def by_trainings(answer: Answering) -> Answering:
    """Answer by the trainings of one figure, the last argument, and say what they learnt from."""
    whole = of_whole_seeds()(answer)

    @wraps(answer)
    def answered(*arguments: object, **options: object) -> Answer | None:
        *parts, frame = arguments
        assert isinstance(frame, pl.DataFrame)
        made = whole(*parts, frame, **options)
        if made is None or made.ours is None:
            return made
        detail = f"{made.detail}, {learnt_data(frame)}"
        return replace(made, detail=detail, seeds=made.seeds or frame["seed"].n_unique())

    return answered

"""What the frames of trainings say: last rows, seconds to an accuracy, and words for both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from math import sqrt
from statistics import stdev
from typing import Any

import polars as pl

from workbench.dlion.paper.trainings import CURVE, of_present_hop
from workbench.reproduction.claims import Answer

STATED_TARGET = 0.7
"""Accuracy that Figs. 9a and 14 wait for."""


def ended(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of the trainings that ended well."""
    return frame.filter(pl.col("reason").is_null())


def final(frame: pl.DataFrame) -> pl.DataFrame:
    """The last row of each training that ended well."""
    return frame.filter(pl.col("top1").is_not_null() & (pl.col("at_s") >= pl.col("seconds")))


def highest(frame: pl.DataFrame) -> pl.DataFrame:
    """The row of each training that ended well in which it was most accurate, the first of equal.

    An accuracy is the mean over workers.
    """
    by = ("system", "environment", "seed")
    whole = frame.join(final(frame).select(by), on=by, how="semi")
    return (
        whole.drop_nulls("top1")
        .group_by(by, maintain_order=True)
        .agg(pl.all().sort_by("top1", "at_s", descending=[True, False]).first())
    )


def target_of(frame: pl.DataFrame) -> float:
    """Accuracy to wait for: the paper's 70 %, or what all trainings of a frame reach if less."""
    of = [one for one in frame.columns if one not in CURVE]
    best = frame.group_by(of).agg(pl.col("top1").max())["top1"]
    least = best.drop_nulls().min()
    return min(STATED_TARGET, float(least) if isinstance(least, int | float) else 0.0)


def seconds_to(frame: pl.DataFrame, target: float) -> float | None:
    """Mean over seeds of the seconds until an accuracy; None if a seed never gets there.

    Between the rows before and after it is interpolated. Rows hold the newest evaluation, so that
    it is too late by up to the time between two evaluations.
    """
    reached_s = []
    for _, part in frame.group_by("seed", maintain_order=True):
        rows = [(0.0, 0.0), *part.drop_nulls("top1").sort("at_s").select("at_s", "top1").rows()]
        pairs = (pair for pair in pairwise(rows) if pair[1][1] >= target)
        if (first := next(pairs, None)) is None:
            return None
        (before_s, before), (after_s, after) = first
        share = (target - before) / (after - before) if after > before else 1.0
        reached_s.append(before_s + share * (after_s - before_s))
    return sum(reached_s) / len(reached_s) if reached_s else None


OTHER_HOP = (
    "rests on Hop, which waited in every iteration when this was recorded; record it again, with "
    "--force"
)


def of_trainings(answer: Callable[..., Answer | None]) -> Callable[..., Answer | None]:
    """Answer by the trainings that ended well, the last argument."""

    @wraps(answer)
    def checked(*arguments: Any, **options: object) -> Answer | None:
        *parts, frame = arguments
        present = of_present_hop(frame)
        well = ended(present)
        if well.is_empty():
            return Answer(not_run="rests on trainings that failed")
        failed = len(present) - len(well)
        found = answer(*parts, well, **options)
        if found is None and failed:
            return Answer(not_run="rests on trainings that failed")
        if found is None and len(present) < len(frame):
            return Answer(not_run=OTHER_HOP)
        if found is None or found.ours is None:
            return found
        left_out = f"; left out: {failed} that failed" if failed else ""
        seeds = found.seeds or well["seed"].n_unique()
        return replace(found, detail=found.detail + left_out, seeds=seeds)

    return checked


def spread(values: Sequence[float], unit: str = "points") -> str:
    """A mean's standard error over seeds, or that there is one seed."""
    if len(values) < 2:
        return "one seed"
    return f"± {stdev(values) / sqrt(len(values)):.1f} {unit} ({len(values)} seeds)"


def learnt_from(frame: pl.DataFrame) -> str:
    """Who learnt from what."""
    row = frame.row(0, named=True)
    return f"{row['learner']} on {row['train_samples']:,} of {row['dataset']}"


def by(frame: pl.DataFrame, column: str) -> dict[object, float]:
    """Mean final accuracy by a column's value."""
    last = final(frame).sort("seed").group_by(column, maintain_order=True)
    return dict(last.agg(pl.col("top1").mean()).iter_rows())


def percents_by(found: dict[object, float], axis: str) -> str:
    """``30.0/60.0 % by N 1/10``."""
    return f"{percents(found.values())} % by {axis} {slashed(found)}"


def percents(values: Iterable[float]) -> str:
    """``30.0/60.0``."""
    return slashed(f"{100 * value:.1f}" for value in values)


def slashed(values: Iterable[object]) -> str:
    """Joined by slashes."""
    return "/".join(map(str, values))


def seconds_text(values: Iterable[float | None]) -> str:
    """``900/never s``."""
    return slashed("never" if one is None else f"{one:.0f}" for one in values) + " s"

"""What follows from the frame of trainings, for answers and charts."""

from __future__ import annotations

import polars as pl

STATED_TARGET = 0.7
"""Accuracy that Figs. 9a and 14 wait for."""


def ended(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of the trainings that ended well."""
    return frame.filter(pl.col("reason").is_null())


def final(frame: pl.DataFrame) -> pl.DataFrame:
    """The last row of each training that ended well."""
    return frame.filter(pl.col("top1").is_not_null() & (pl.col("at_s") >= pl.col("seconds")))


def target_of(frame: pl.DataFrame) -> float:
    """Accuracy to wait for: the paper's 70 %, or what all trainings of a frame reach if less."""
    best = frame.group_by(_training(frame)).agg(pl.col("top1").max())["top1"]
    least = best.drop_nulls().min()
    return min(STATED_TARGET, float(least) if isinstance(least, int | float) else 0.0)


def seconds_to(frame: pl.DataFrame, target: float) -> float | None:
    """Mean over seeds of the seconds until an accuracy; None if one never gets there.

    Between the rows before and after it is interpolated. Rows hold the newest evaluation, so that
    it is too late by up to the time between two evaluations: 100 iterations at scale ``paper``.
    """
    found = []
    for _, part in frame.group_by("seed", maintain_order=True):
        rows = [(0.0, 0.0), *part.drop_nulls("top1").sort("at_s").select("at_s", "top1").rows()]
        at = next((at for at, (_, top1) in enumerate(rows) if top1 >= target and at), None)
        if at is None:
            return None
        (before_s, before), (after_s, after) = rows[at - 1], rows[at]
        share = (target - before) / (after - before) if after > before else 1.0
        found.append(before_s + share * (after_s - before_s))
    return sum(found) / len(found) if found else None


def _training(frame: pl.DataFrame) -> list[str]:
    deciding = (
        *(
            "system",
            "environment",
            "seed",
            "techniques",
            "n",
            "accumulate",
            "weighting",
            "growth_epochs",
        ),
        *("period", "share", "whom", "early", "candidate", "first_weights", "synchronous"),
        *("classes", "workers", "panel"),
    )
    return [name for name in deciding if name in frame.columns]

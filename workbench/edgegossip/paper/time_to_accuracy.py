"""How long each method takes to an accuracy: training time as it is when not all learn as much."""

from __future__ import annotations

from statistics import fmean

import polars as pl

from workbench.claims.rule import tolerance
from workbench.edgegossip.paper.paired import Mean
from workbench.edgegossip.paper.trainings import final

BELOW_POINTS = tolerance("percentage points", 0.0)
"""So far below GoSGD's last accuracy is what both have to reach: as near as counts as near."""

_KEY = ("model", "platforms", "imbalance", "seed")
_OURS = ("technique", "ratio", "strategy", "order")


def seconds_to_accuracy(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Seconds until GoSGD's last accuracy less `BELOW_POINTS`, with GoSGD and with EdgeGossip.

    Speed-ups over equal epochs favour whoever learns from less; this does not. Accuracy is looked
    at where it was evaluated, so seconds are those of the first such epoch.

    Parameters
    ----------
    frame
        As `workbench.edgegossip.paper.trainings.trainings` returns it.
    by
        Columns that tell cases apart.

    Returns
    -------
    polars.DataFrame
        A row per case: those columns, ``seeds``, ``wanted_percent``, ``gosgd_s``, ``edgegossip_s``
        and ``times_as_fast``: means over the seeds, null where one of them does not get there.
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


def seconds_in_words(frame: pl.DataFrame) -> str:
    """Say of each model how much faster it learns over equal epochs and to an accuracy.

    Parameters
    ----------
    frame
        As `seconds_to_accuracy` takes it; techniques are averaged.
    """
    reached = seconds_to_accuracy(frame, "model").rows_by_key("model", named=True, unique=True)
    lines = [f"Over equal epochs, and to GoSGD's last accuracy less {BELOW_POINTS:g} points:"]
    for (model,), of_one in final(frame).group_by("model", maintain_order=True):
        speedups = of_one["speedup"].to_list()
        lost = of_one.group_by("seed").agg(pl.col("lost_points").mean()).sort("seed")
        lines.append(
            f"- {model}: {fmean(speedups):.2f} times as fast over equal epochs "
            f"({min(speedups):.2f} to {max(speedups):.2f}), "
            f"{Mean.of(lost['lost_points'].to_list())} points lost; "
            f"{_reaching(reached[model])}."
        )
    return "\n".join(lines)


def _reaching(row: dict[str, float | None]) -> str:
    """Who gets to the accuracy, when, and who is first."""
    gosgd_s, edgegossip_s = row["gosgd_s"], row["edgegossip_s"]
    if gosgd_s is None or edgegossip_s is None:
        return "not every seed gets to the accuracy"
    return (
        f"to the accuracy {edgegossip_s:.0f} s against GoSGD's {gosgd_s:.0f} s, "
        f"{gosgd_s / edgegossip_s:.2f} times as fast"
        f"{', so later' if edgegossip_s > gosgd_s else ''}"
    )


def _mean_of_all(column: str) -> pl.Expr:
    """Mean; null where one is missing, since those that get there are not all."""
    one = pl.col(column)
    return pl.when(one.null_count() == 0).then(one.mean())

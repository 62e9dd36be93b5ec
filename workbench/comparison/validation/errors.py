"""How far predicted, simulated and naive seconds of an iteration are from the measured ones.

Errors are signed: below 0, an iteration takes longer than was said. Runs that are void or failed
are left out, and counted.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binom

MEDIAN_BAR, P95_BAR = 0.05, 0.10
FROM_S = 0.1
"""The goal: median and 95th percentile of the error's size, where an iteration takes this long."""

WAYS = {"predicted": "predicted_s", "simulated": "simulated_s", "naive": "naive_s"}
CASE = ("system", "setting", "choice")
CONFIDENCE = 0.95


def order_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The two order statistics between which the median lies with a confidence of 95 %.

    By the binomial distribution. Of fewer than six values, which cannot be so sure, the least and
    the greatest.
    """
    rank = max(0, int(binom.ppf((1 - CONFIDENCE) / 2, len(values), 0.5)) - 1)
    ordered = np.sort(values)
    return float(ordered[rank]), float(ordered[-1 - rank])


def usable(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs that ended and are not void."""
    return runs.filter(pl.col("reason").is_null(), ~pl.col("void"))


def errors(runs: pl.DataFrame) -> pl.DataFrame:
    """A row for each usable run and way: that of the run, with ``way`` and ``error``."""
    found = usable(runs)
    return pl.concat(
        found.with_columns(way=pl.lit(way), error=pl.col(column) / pl.col("measured_s") - 1)
        for way, column in WAYS.items()
    )


def by_case(runs: pl.DataFrame) -> pl.DataFrame:
    """A row for each case: seconds an iteration each way, runs and how many are void.

    Measured seconds are the median of the usable runs, with its interval, ``low_s`` to ``high_s``.
    """
    rows = []
    for _, group in runs.group_by(*CASE, maintain_order=True):
        measured_s = usable(group)["measured_s"].to_numpy()
        low_s, high_s = order_interval(measured_s) if len(measured_s) else (None, None)
        rows.append(
            group.select(*CASE, *WAYS.values()).row(0, named=True)
            | {
                "measured_s": float(np.median(measured_s)) if len(measured_s) else None,
                "low_s": low_s,
                "high_s": high_s,
                "runs": len(group),
                "void": int(group["void"].fill_null(value=True).sum()),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None).sort(CASE)


def summary(runs: pl.DataFrame, *groups: str) -> pl.DataFrame:
    """Errors of each way of answering, in percent, grouped by columns of the runs.

    Their median, the 95th percentile of their size (``p95``) and the farthest from 0 (``worst``).
    """
    percent = 100 * pl.col("error")
    size = percent.abs()
    return (
        errors(runs)
        .group_by("way", *groups, maintain_order=True)
        .agg(
            pl.struct(CASE).n_unique().cast(pl.Int64).alias("cases"),
            pl.len().cast(pl.Int64).alias("runs"),
            percent.median().alias("median"),
            size.quantile(0.95, "linear").alias("p95"),
            percent.get(size.arg_max()).alias("worst"),
        )
    )


def goals(runs: pl.DataFrame) -> pl.DataFrame:
    """`summary` of long iterations of which all work fits the machine: whether the goal is met."""
    met = (pl.col("median").abs() <= 100 * MEDIAN_BAR) & (pl.col("p95") <= 100 * P95_BAR)
    return summary(runs.filter("fits", pl.col("simulated_s") >= FROM_S)).with_columns(met=met)


def over(runs: pl.DataFrame, way: str = "simulated") -> pl.DataFrame:
    """Cases whose median error is over the goal's, the farthest first, in percent."""
    return (
        errors(runs)
        .filter(way=way)
        .group_by(*CASE, "regime", "fits", maintain_order=True)
        .agg(pl.col("simulated_s").first(), percent=100 * pl.col("error").median())
        .filter(pl.col("percent").abs() > 100 * MEDIAN_BAR)
        .sort(pl.col("percent").abs(), descending=True)
    )


def order(runs: pl.DataFrame) -> pl.DataFrame:
    """Pairs of choices in one setting: whether the one predicted to be faster was measured so.

    ``apart`` says whether they are predicted to differ by more than the spread: by more than half
    the widths of both medians' intervals. Otherwise ``agrees`` is null.
    """
    setting = ("system", "setting")
    schema = {
        **dict.fromkeys((*setting, "faster", "slower"), pl.String),
        **dict.fromkeys(("said_percent", "measured_percent"), pl.Float64),
        **dict.fromkeys(("apart", "agrees"), pl.Boolean),
    }
    rows = []
    known = by_case(runs).drop_nulls("measured_s").sort("predicted_s", maintain_order=True)
    for key, group in known.group_by(*setting, maintain_order=True):
        for fast, slow in combinations(group.iter_rows(named=True), 2):
            gap_s = slow["predicted_s"] - fast["predicted_s"]
            apart = gap_s > sum((each["high_s"] - each["low_s"]) / 2 for each in (fast, slow))
            said = 100 * gap_s / fast["predicted_s"]
            found = 100 * (slow["measured_s"] / fast["measured_s"] - 1)
            agrees = fast["measured_s"] < slow["measured_s"] if apart else None
            rows.append((*key, fast["choice"], slow["choice"], said, found, apart, agrees))
    return pl.DataFrame(rows, schema=schema, orient="row").sort(setting, maintain_order=True)


def weights(runs: pl.DataFrame) -> pl.DataFrame:
    """By system: runs whose weights are the simulation's, and whether order of arrival decides."""
    learnt = runs.filter(pl.col("same_weights").is_not_null())
    return (
        learnt.group_by("system", "choice", "ordered", maintain_order=True)
        .agg(runs=pl.len(), same=pl.col("same_weights").sum())
        .sort("ordered", "system", "choice")
    )


def machine(runs: pl.DataFrame) -> pl.DataFrame:
    """Table of each system's runs: usable, void, and how much the machine disturbed them."""
    late = 100 * pl.col("late") / pl.col("deadlines")
    return (
        runs.filter(pl.col("reason").is_null())
        .group_by("system", maintain_order=True)
        .agg(
            pl.len().alias("runs"),
            pl.col("void").sum(),
            pl.col("fits").sum(),
            steal_percent=100 * pl.col("steal").max(),
            late_percent=late.max(),
            median_late_percent=late.median(),
            late_s=pl.col("late_s").max(),
            works_late_s=pl.col("works_late_s").max(),
            load=pl.col("load").median(),
        )
        .sort("system")
    )

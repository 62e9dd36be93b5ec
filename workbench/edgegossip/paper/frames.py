"""What follows from the frame of an experiment, for other experiments and for answers."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


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
    one = pl.all().exclude(*by, "seed")
    return seeds.group_by(by, maintain_order=True).agg(
        pl.when(one.null_count() == 0).then(one.mean())
    )


def final(frame: pl.DataFrame) -> pl.DataFrame:
    """Last epoch of each training: time and accuracy of GoSGD and EdgeGossip side by side.

    A row per training of EdgeGossip: its setting, ``gosgd_top1, top1, lost_points`` (GoSGD's
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

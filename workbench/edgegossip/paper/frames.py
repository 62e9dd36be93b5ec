"""What follows from the frame of an experiment, for other experiments and for answers."""

from __future__ import annotations

import polars as pl


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

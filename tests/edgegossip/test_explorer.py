"""EdgeGossip's explorer says how long an epoch takes, and shows less to wait."""

from __future__ import annotations

import polars as pl

from workbench.edgegossip import explorer
from workbench.edgegossip.explorer import Setting


def test_it_says_how_long_an_epoch_takes() -> None:
    title = explorer.draw(Setting())["vconcat"][0]["title"]
    spans = explorer.trace(Setting()).frame.group_by("lane").agg(pl.col("end_s").max())
    end_s = dict(spans.iter_rows())
    assert title == [
        f"AlexNet, an epoch: {end_s['GoSGD']:.3g} s with GoSGD, "
        f"{end_s['EdgeGossip']:.3g} s with EdgeGossip",
        f"{end_s['GoSGD'] / end_s['EdgeGossip']:.2f} times as fast (cost model)",
    ]


def test_it_leaves_less_to_wait() -> None:
    frame = explorer.trace(Setting()).frame.filter(kind="wait")
    waited = frame.group_by("lane").agg((pl.col("end_s") - pl.col("start_s")).sum())
    seconds = dict(waited.iter_rows())
    assert seconds["EdgeGossip"] < seconds["GoSGD"] / 3

"""EdgeGossip's explorer says how long an epoch takes, and shows less to wait."""

from __future__ import annotations

import polars as pl
import pytest

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


def test_whole_batches_are_learnt_from() -> None:
    """A platform that keeps 10 % of its points learns from a third of them, if that is a batch."""
    kept = {}
    for batch_size in (1, 64, 4096):
        drawn = explorer.draw(Setting(batch_size=batch_size, load=0.9))
        rows = drawn["datasets"][drawn["vconcat"][1]["data"]["name"]]
        kept[batch_size] = [row["percent"] for row in rows]
    for single, small, large in zip(*kept.values(), strict=True):
        assert single - 1e-9 <= small <= single + 100 * 64 / 12_500
        assert large in [pytest.approx(100 * batches / 3) for batches in (1, 2, 3)]


def test_ranking_takes_as_long_at_any_batch_size() -> None:
    ranked_s = [
        explorer.trace(Setting(batch_size=size)).frame.filter(label="rank", lane="EdgeGossip")
        for size in (1, 50)
    ]
    single, batches = (frame["end_s"] - frame["start_s"] for frame in ranked_s)
    assert single.to_list() == pytest.approx(batches.to_list())

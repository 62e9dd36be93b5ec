"""The example of a parallel scan combines what it says, from values that are there."""

from __future__ import annotations

import polars as pl
import pytest

from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.paper.scan_example import FIG5, NODES, combinations


def test_hillis_and_steeles_scan_is_the_papers() -> None:
    frame = combinations()
    assert frame["step"].max() == 3
    apart = frame.filter(pl.col("step") > 0).with_columns(pl.col("node") - pl.col("source"))
    assert apart.group_by("step").agg(pl.col("node").unique()).sort("step")["node"].to_list() == [
        [1],
        [2],
        [4],
    ]
    ends = frame.group_by("node").agg(pl.col("first", "last").last()).sort("node")
    assert ends["first"].to_list() == [1] * NODES
    assert ends["last"].to_list() == list(range(1, NODES + 1))


@pytest.mark.parametrize("scan", SCANS)
def test_a_nodes_value_begins_with_its_sources(scan: str) -> None:
    frame = FIG5.frame("smoke", scan=scan)
    held: dict[int, tuple[int, int]] = {}
    for _, rows in frame.group_by("step", maintain_order=True):
        now = dict(held)
        for row in rows.iter_rows(named=True):
            if row["source"] is not None:
                assert held[row["source"]][0] <= row["first"] <= row["last"]
            now[row["node"]] = row["first"], row["last"]
        held = now
    assert FIG5.chart is not None
    FIG5.chart(frame).to_dict()

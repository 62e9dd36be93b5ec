"""Fig. 5: which node combines what in each step of a parallel scan."""

from __future__ import annotations

import altair as alt
import polars as pl

from workbench.figures import PALETTE, parts
from workbench.olpb.algorithms.schedules import schedule
from workbench.olpb.paper.titles import SCAN_TITLES
from workbench.reproduction.figure import Figure

NODES = 8
"""Nodes of the paper's example, with an element each."""

ROWS = {
    "scan": pl.String,
    **dict.fromkeys(("step", "node", "source", "first", "last"), pl.Int64),
}


def combinations(scan: str = "hillis_steele") -> pl.DataFrame:
    """Combinations of a scan by step, after a row for each node's own element.

    Columns ``scan, step, node, source`` (the node whose value comes before the node's own; null at
    step 0) and ``first, last``, the elements that the node then has combined.
    """
    planned = schedule(scan, NODES, NODES)
    rows: list[tuple[str, int, int, int | None, int, int]] = [
        (scan, 0, node, None, node, node) for node in range(NODES)
    ]
    for step, stage in enumerate(planned.stages, start=1):
        for move in stage:
            span = planned.spans[move.result]
            rows.append((scan, step, move.node, planned.homes[move.left], span[0], span[-1]))
    counted = pl.col("node", "source", "first", "last") + 1
    return pl.DataFrame(rows, ROWS, orient="row").with_columns(counted)


def draw_combinations(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw a line from each value to the node that combines it, step by step."""
    spans = pl.format("{} to {}", "first", "last")
    alone = pl.col("first") == pl.col("last")
    drawn = frame.with_columns(
        before=pl.col("step") - 1,
        elements=pl.when(alone).then(pl.col("first").cast(pl.String)).otherwise(spans),
    )
    steps = int(frame["step"].max())  # type: ignore[arg-type]
    scale = alt.Scale(zero=False, nice=False, padding=30)
    x = alt.X("node:Q", title="node", scale=scale, axis=alt.Axis(tickMinStep=1, format="d"))
    y = alt.Y(
        "step:Q",
        title="step",
        scale=alt.Scale(reverse=True, nice=False, padding=12),
        axis=alt.Axis(tickMinStep=1, format="d", grid=False),
    )
    base = alt.Chart(drawn).encode(x=x, y=y)
    ends = drawn.filter(step=0).with_columns(end=pl.lit(steps))
    nodes = (
        alt.Chart(ends).mark_rule(color=parts.GREY, strokeDash=[2, 2]).encode(x=x, y=y, y2="end:Q")
    )
    sent = base.mark_rule(color=PALETTE[0], strokeWidth=1.25).encode(
        x="source:Q", y="before:Q", x2="node:Q", y2="step:Q"
    )
    points = base.mark_point(size=45, color=PALETTE[0])
    labels = base.mark_text(align="left", dx=6, dy=-5).encode(text="elements:N")
    title = [
        f"{SCAN_TITLES[frame['scan'][0]]}: {NODES} elements on {NODES} nodes in {steps} steps",
        "numbers: the elements that a node has combined",
    ]
    layers = [nodes, sent.transform_filter("datum.step > 0"), points, labels]
    return alt.LayerChart(layer=layers, height=190, title=title)


FIG5 = Figure(id="fig5", compute=combinations, chart=draw_combinations)

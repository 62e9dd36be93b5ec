"""Charts of Table II."""

from __future__ import annotations

import altair as alt
import polars as pl

from workbench.figures import parts
from workbench.olpb.paper.titles import MB, MODEL_TITLES, model_title

COUNTING_TITLES = {"library": "library", "single": "library", "workbench": "PyTorch"}
"""Titles of the two ways to count results: by the library's operators, or by PyTorch's."""
_MEMORIES = {"without": "every result kept", "with": "planned"}


def draw_memory(frame: pl.DataFrame) -> alt.FacetChart:
    """Memory without and with a plan, a panel per network.

    Rows are the paper's figures, and whose operators' results are counted, at how many bytes a
    number.
    """
    counting = pl.col("counting").replace_strict(COUNTING_TITLES)
    named = frame.with_columns(
        counting=pl.format("{}, {} bytes", counting, "bytes_per_number"),
        panel=pl.format("{}, {} px", pl.col("model").replace(MODEL_TITLES), "image_px"),
    )
    stated = named.unique("panel", maintain_order=True).with_columns(counting=pl.lit("the paper"))
    drawn = pl.concat(
        rows.select("counting", "panel", kind=pl.lit(title), mb=mb)
        for name, title in _MEMORIES.items()
        for rows, mb in (
            (stated, pl.col(f"paper_{name}_mb")),
            (named, pl.col(f"{name}_bytes") / MB),
        )
    )
    order = ["the paper", *named["counting"].unique(maintain_order=True)]
    rows = alt.Y("counting:N", sort=order, title=None, axis=alt.Axis(labelLimit=0))
    kinds = list(_MEMORIES.values())
    base = alt.Chart().encode(y=rows, yOffset=alt.YOffset("kind:N", sort=kinds))
    bars = base.mark_bar().encode(
        x=alt.X("mb:Q", title="MB"), color=parts.colour("kind", kinds, title=None)
    )
    text = base.encode(x="mb:Q", text=alt.Text("mb:Q", format=",.0f"))
    numbers = text.mark_text(align="left", dx=3)
    title = ["Table II: memory of inference, with parameters", "by what is counted"]
    panels = drawn["panel"].unique(maintain_order=True).to_list()
    chart = alt.LayerChart(data=drawn, layer=[bars, numbers], height=120)
    return parts.facets(chart, "panel", panels, title, columns=1).resolve_scale(x="independent")


def draw_seconds(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds without and with a plan, on this machine and in the paper, a panel per network."""
    shown = {
        "without": ("plain_s", "paper_without_s"),
        "execution": ("execution_s", "paper_execution_s"),
        "build": ("build_s", "paper_build_s"),
    }
    rows = [
        (model_title(row), where, name, row[column])
        for row in frame.to_dicts()
        for name, columns in shown.items()
        for where, column in zip(("ours", "the paper's"), columns, strict=True)
    ]
    drawn = pl.DataFrame(rows, ["panel", "where", "part", "seconds"], orient="row")
    drawn = drawn.with_columns(
        way=pl.when(part="without").then(pl.lit("without plan")).otherwise(pl.lit("with plan"))
    )
    panels = drawn["panel"].unique(maintain_order=True).to_list()
    bars = (
        alt.Chart(drawn, height=36)
        .mark_bar()
        .encode(
            x=alt.X("sum(seconds):Q", title="seconds"),
            y=alt.Y("way:N", sort=["without plan", "with plan"], title=None),
            color=parts.colour("part", list(shown)),
            order=alt.Order("part:N", sort="descending"),
            row=alt.Row("panel:N", title=None, sort=panels),
            column=alt.Column("where:N", title=None, sort="descending"),
        )
    )
    repeats = frame["repeats"][0]
    title = ["Table II: time of inference", f"median of {repeats}, timed"]
    return bars.properties(title=title).resolve_scale(x="independent")

"""Charts of every kind, small."""

import altair as alt
import polars as pl
from altair.typing import ChartType

from workbench import figures


def frame() -> pl.DataFrame:
    models, parts = ("VGG-19", "ResNet-152", "GoogLeNet"), ("alone", "overlap")
    rows = [(m, p, x, 3.0 * i + x) for i, m in enumerate(models) for p in parts for x in (1, 2, 4)]
    return pl.DataFrame(rows, schema=["model", "part", "x", "y"], orient="row")


def bars() -> alt.Chart:
    marks = alt.Chart(frame(), title="Forward, µs").mark_bar()
    chart: alt.Chart = marks.encode(x="model:N", y="sum(y):Q", color="part:N")
    return chart


def lines() -> alt.Chart:
    series = figures.series("model", ["VGG-19", "ResNet-152", "GoogLeNet"])
    marks = alt.Chart(frame()).mark_line(point=True)
    chart: alt.Chart = marks.encode(x="x:Q", y="mean(y):Q", **series)
    return chart


def charts() -> dict[str, ChartType]:
    rule = alt.Chart(pl.DataFrame({"y": [5.0]})).mark_rule().encode(y="y:Q")
    return {
        "single": bars(),
        "lines": lines(),
        "layered": alt.layer(lines(), rule),
        "faceted": bars().properties(height=90).facet("part:N", columns=2),
        "columns": bars().encode(column="part:N"),
        "hconcat": alt.hconcat(lines().properties(width=200), bars().properties(width=100)),
        "vconcat": alt.vconcat(lines(), bars()),
    }

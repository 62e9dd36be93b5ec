"""Charts of `fleet_experiment`: frame to altair chart."""

from __future__ import annotations

import altair as alt
import polars as pl

from workbench import figures

METHOD_TITLES = {
    "alone": "each device by itself (the paper)",
    "assign": "assigned together",
    "exact": "best assignment",
    "lower bound": "lower bound",
}
_APART_PX = 24  # between facets, so that the axes' outermost labels stay apart


def fleet(frame: pl.DataFrame) -> alt.FacetChart:
    """Slowest device's iteration against the number of devices, a column per number of edges.

    Means over the fleets drawn; the best assignment only where all fleets of a size have one.
    """
    drawn = (
        _titled(frame)
        .group_by("edges", "devices", "method", maintain_order=True)
        .agg(pl.col("slowest_s").mean(), pl.col("slowest_s").null_count().alias("missing"))
        .filter(pl.col("missing") == 0)
    )
    methods = list(METHOD_TITLES)
    lines = _lines(drawn, "slowest_s", "slowest device, s an iteration", methods)
    return _by_edges(lines, frame, "Several devices on shared edges")


def fleet_gaps(frame: pl.DataFrame) -> alt.FacetChart:
    """How far above the lower bound each method is, against the number of devices."""
    drawn = (
        _titled(frame.filter(pl.col("method") != "lower bound"))
        .group_by("edges", "devices", "method", maintain_order=True)
        .agg(pl.col("gap_percent").mean(), pl.col("gap_percent").null_count().alias("missing"))
        .filter(pl.col("missing") == 0)
    )
    methods = [name for name in METHOD_TITLES if name != "lower bound"]
    lines = _lines(drawn, "gap_percent", "above the lower bound, %", methods)
    return _by_edges(lines, frame, "Gap to the lower bound")


def _lines(drawn: pl.DataFrame, field: str, title: str, methods: list[str]) -> alt.Chart:
    there = set(drawn["method"])
    sizes = sorted(drawn["devices"].unique().to_list())
    present = [METHOD_TITLES[name] for name in methods if METHOD_TITLES[name] in there]
    chart: alt.Chart = (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=alt.X("devices:Q", title="devices", axis=alt.Axis(values=sizes, format="d")),
            y=alt.Y(f"{field}:Q", title=title),
            **figures.series("method", present),
        )
        .properties(height=170)
    )
    return chart


def _by_edges(lines: alt.Chart, frame: pl.DataFrame, subject: str) -> alt.FacetChart:
    order = [_edges(edges) for edges in sorted(frame["edges"].unique().to_list())]
    draws = frame["draw"].n_unique()
    over = f"mean over {draws} random fleets a size" if draws > 1 else "one random fleet a size"
    return lines.facet(
        facet=alt.Facet("edges:N", sort=order, title=None),
        columns=len(order),
        title=[subject, f"{over} (cost model, synthetic machines)"],
        spacing=_APART_PX,
    )


def _titled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.col("method").replace_strict(METHOD_TITLES),
        edges=pl.col("edges").map_elements(_edges, return_dtype=pl.String),
    )


def _edges(count: int) -> str:
    return "1 edge" if count == 1 else f"{count} edges"

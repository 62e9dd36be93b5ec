"""Charts of trained methods: loss and metric against time and bytes; losses under stress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.comparison.learning.ranking import KEYS
from workbench.comparison.learning.stress import STRESSES
from workbench.comparison.methods.method import EQUAL
from workbench.figures import parts, stacked
from workbench.figures.style import PALETTE, series
from workbench.training.objective import CLASSES, Metric, Objective
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import altair as alt

    from workbench.comparison.learning.ranking import TrainedMethods

MOST = len(PALETTE)
POINTS = 16
"""Points of a line."""

LONGEST = 64
"""Largest ratio of a line's end to its beginning."""

GOOD, BAD = "#ffffff", "#e38b2c"
"""Colours of cells where a stress costs nothing, and where it costs everything."""

SUBTITLE = "true learning, simulated time"
"""Line of a chart's title."""

AXES = {"at_s": "virtual seconds", "bytes": "MB over all links"}
CURVES = {
    "method": pl.String,
    "axis": pl.String,
    "measure": pl.String,
    "title": pl.String,
    **dict.fromkeys(("at", "mean", "low", "high"), pl.Float64),
}


def shown(trained: TrainedMethods, most: int = MOST) -> list[str]:
    """The best methods of all systems in the order of their ranks, up to `most`.

    Each system has its best that equals SGD and its best other; as many of the one as of the other.
    """
    exact = pl.col("update") == EQUAL
    best = (
        trained.summary.filter(pl.col("reason").is_null())
        .with_columns(exact=exact)
        .unique(["system", "exact"], keep="first", maintain_order=True)
        .with_columns(place=pl.int_range(pl.len()).over("exact"))
    )
    kept = best.sort("place", maintain_order=True)["method"].head(most).to_list()
    return best.filter(pl.col("method").is_in(kept))["method"].to_list()


def curves(trained: TrainedMethods, methods: Sequence[str] | None = None) -> pl.DataFrame:
    """Means over seeds, with minimum and maximum, on a geometric grid of times and of bytes.

    Columns are ``method, axis, measure, title, at, mean, low, high``; axes are ``at_s`` and
    ``bytes`` (in MB), measures ``loss`` and the metric that the objective shows (accuracies in
    percent). A training counts with its newest evaluation at each point. Methods that send nothing
    have no line by bytes.
    """
    rows = []
    measures, name = {"loss": Metric(title="loss")}, trained.objective.shown
    if name is not None:
        measures[name] = trained.objective.metrics[name]
    best = trained.evaluations.join(trained.summary, on=KEYS, how="semi", maintain_order="left")
    scales = {"at_s": 1.0, "bytes": 1e-6}
    for method in shown(trained) if methods is None else methods:
        runs = best.filter(method=method).partition_by("seed", maintain_order=True)
        for axis in AXES:
            own = [run[axis].to_numpy() * scales[axis] for run in runs]
            begins = [float(at[at > 0].min()) for at in own if (at > 0).any()]
            if not begins:
                continue
            end = max(float(at[-1]) for at in own)
            if axis == "at_s":
                end = max(end, trained.seconds)
            grid = np.geomspace(max(min(begins), end / LONGEST), end, POINTS)
            for measure, metric in measures.items():
                values = [
                    run[measure].to_numpy()[
                        np.searchsorted(at, grid * (1 + 1e-12), side="right") - 1
                    ]
                    * metric.scale
                    for at, run in zip(own, runs, strict=True)
                ]
                low, mean, high = (f(values, axis=0) for f in (np.min, np.mean, np.max))
                rows += [
                    (method, axis, measure, f"test {metric.heading}", *map(float, point))
                    for point in zip(grid, mean, low, high, strict=True)
                ]
    return pl.DataFrame(rows, schema=CURVES, orient="row")


def draw_curves(frame: pl.DataFrame, title: Sequence[str]) -> dict[str, Any]:
    """Draw loss above and metric below, against seconds on the left and bytes on the right.

    Lines are means over seeds, bands go from minimum to maximum.
    """
    order = frame["method"].unique(maintain_order=True).to_list()
    rows = [
        stacked(
            *(_panel(frame, axis, measure, order) for axis in AXES),
            how="hconcat",
            independent=("x", "y"),
        )
        for measure in frame["measure"].unique(maintain_order=True)
    ]
    return stacked(*rows, title=title, independent=("x", "y"))


def _panel(frame: pl.DataFrame, axis: str, measure: str, order: Sequence[str]) -> alt.LayerChart:
    import altair as alt

    encoded = series("method", order)
    encoded["color"] = encoded["color"].legend(symbolOpacity=1)
    titles = frame.filter(measure=measure)["title"]
    base = alt.Chart(frame.filter(axis=axis, measure=measure)).encode(
        x=alt.X(**parts.log_axis("at", AXES[axis], labelSeparation=8))
    )
    band = base.mark_area(opacity=0.25).encode(
        y=alt.Y("low:Q", title=titles[0]), y2="high:Q", color=encoded["color"]
    )
    line = base.mark_line(point=True).encode(y="mean:Q", **encoded)
    chart: alt.LayerChart = (band + line).properties(height=150, width=210)
    return chart


def draw_stress(
    frame: pl.DataFrame, title: Sequence[str], objective: Objective = CLASSES
) -> dict[str, Any]:
    """Draw the rate that each method keeps under each stress, and how much worse it ends.

    `frame` is that of `stress.stress`. The end is judged by the metric that the objective shows, or
    else by the loss. Values are means over seeds; a method that stops with any seed has none.
    """
    measure = f"end_{objective.shown or 'loss'}"
    if measure not in frame.columns:
        raise UserError(f"the frame has no column {measure}; give the objective of the trainings")
    metric = objective.metrics.get(objective.shown or "", Metric(title="loss"))
    worse = pl.col(measure).first().over("method", "seed") - pl.col(measure)
    order = frame["method"].unique(maintain_order=True).to_list()
    drawn = (
        frame.with_columns(worse=worse if metric.higher_is_better else -worse)
        .filter(pl.col("stress").is_in(STRESSES))
        .group_by("method", "stress", maintain_order=True)
        .agg(
            stops=pl.col("stops").any(),
            kept=100 * pl.col("rate_share").mean(),
            lost=metric.scale * pl.col("worse").mean(),
        )
    )
    lost = pl.col("lost")
    rounded = lost.round(1) if metric.percent else lost.round_sig_figs(2)
    texts = {
        "kept": pl.format("{} %", pl.col("kept").round(0).cast(pl.Int64)),
        "lost": rounded.cast(pl.String),
    }
    headings = {
        "kept": "samples a second, % of undisturbed",
        "lost": f"test {metric.title} {'lost' if metric.higher_is_better else 'added'}"
        + ", points" * metric.percent,
    }
    most = 50.0 if metric.percent else max([0.0, *drawn["lost"].drop_nulls()]) or 1.0
    panels = [
        _cells(
            drawn.with_columns(text=pl.when("stops").then(pl.lit("stops")).otherwise(texts[value])),
            value,
            headings[value],
            (order, STRESSES),
            most,
        )
        for value in headings
    ]
    return stacked(*panels, title=title, how="hconcat")


def _cells(
    frame: pl.DataFrame,
    value: str,
    heading: str,
    axes: tuple[Sequence[str], Sequence[str]],
    most: float,
) -> alt.LayerChart:
    import altair as alt

    methods, stresses = axes
    first = value == "kept"
    drawn = frame.select("method", "stress", "stops", pl.col(value).fill_null(0.0), "text")
    base = alt.Chart(drawn).encode(
        x=alt.X("stress:N", sort=list(stresses), title=None, axis=alt.Axis(labelAngle=-30)),
        y=alt.Y(
            "method:N",
            sort=list(methods),
            title=None,
            axis=alt.Axis(labelLimit=240) if first else alt.Axis(labels=False, ticks=False),
        ),
    )
    domain, ends = ([0, 100], [BAD, GOOD]) if first else ([0, most], [GOOD, BAD])
    scale = alt.Scale(domain=domain, range=ends, clamp=True, interpolate="rgb")
    shade = alt.Color(f"{value}:Q", scale=scale, legend=None)
    cells = base.mark_rect(stroke="white").encode(
        color=alt.when("datum.stops").then(alt.value(parts.GREY)).otherwise(shade)
    )
    chart: alt.LayerChart = (cells + base.mark_text().encode(text="text:N")).properties(
        title=heading, height={"step": 17}, width=190
    )
    return chart

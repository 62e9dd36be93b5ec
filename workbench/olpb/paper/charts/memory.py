"""Charts of memory: frames of `workbench.olpb.paper.experiments.memory`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts

PLANNER_TITLES = {
    "workbench": "workbench",
    "pebble": "pebble game",
    "greedy_by_size": "greedy by size",
    "best_fit": "best fit",
    "parent": "a parent's block",
    "none": "no plan",
}
MODEL_TITLES = {
    "lenet5": "LeNet-5",
    "cifarnet": "CifarNet",
    "squeezenet": "SqueezeNet",
    "squeezenet_cifar": "SqueezeNet (CIFAR-10)",
    "vgg16": "VGG-16",
    "googlenet": "GoogLeNet",
    "resnet50": "ResNet-50",
    "resnet152": "ResNet-152",
    "inception_v3": "Inception-v3",
    "inception_v4": "Inception-v4",
    "mobilenet_v2": "MobileNet-v2",
    "mask_rcnn": "Mask R-CNN",
}
KIND_COLOURS = {
    "activation": "#9dbfe6",
    "gradient": "#e38b2c",
    "output": "#8f2f3c",
    "workspace": "#2a7f74",
    "weight": "#17315f",
    "other": "#c9c9c9",
}
"""In the picture of an arena; other are inputs and constants."""
SMALLEST = 1 / 1000
"""Of the highest block in a picture: what is lower is not drawn."""
MB = 1e6


def arena(frame: pl.DataFrame) -> alt.FacetChart | alt.LayerChart:
    """Where each result lies (address) and when (steps), a panel per planner.

    What is held outside of the block is below zero, and its kinds are drawn as one. The dashed line
    is the bound, the most bytes alive at once in the planner's order. Results lower than a
    thousandth of the highest block are left out.
    """
    drawn = _rectangles(frame)
    order = [_panel(row) for row in frame.unique("planner", maintain_order=True).to_dicts()]
    present = [kind for kind in KIND_COLOURS if kind in set(drawn["kind"])]
    colours = [KIND_COLOURS[kind] for kind in present]
    base = alt.Chart()
    # Channels as objects: altair takes ten times as long to tell what a text or a list means.
    blocks = base.mark_rect(
        aria=False, stroke=figures.INK, strokeOpacity=0.25, strokeWidth=0.3
    ).encode(
        x=alt.X("first:Q", title="step", scale=alt.Scale(nice=False)),
        x2=alt.X2("last:Q"),
        y=alt.Y("from_mb:Q", title="address, MB", scale=alt.Scale(nice=False)),
        y2=alt.Y2("to_mb:Q"),
        color=alt.Color(
            "kind:N",
            title=None,
            scale=alt.Scale(domain=present, range=colours),
            legend=alt.Legend(symbolStrokeWidth=0),
        ),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("name", "kind")]
        + [alt.Tooltip(f"{name}:Q") for name in ("mb", "from_mb", "first", "last")],
    )
    bound = base.mark_rule(strokeDash=[4, 2], strokeWidth=1).encode(y=alt.Y("max(bound_mb):Q"))
    ground = base.mark_rule(strokeWidth=0.5).encode(y=alt.datum(0))
    row = frame.row(0, named=True)
    what = f"a step of training, batch {row['batch_size']}" if row["training"] else "inference"
    title = [
        f"{MODEL_TITLES.get(row['model'], row['model'])}, {what}",
        *(order if len(order) == 1 else []),
        "dashed: most bytes alive at once",
        "below 0: held outside of the block",
    ]
    chart = alt.LayerChart(data=drawn, layer=[blocks, ground, bound], height=240)
    if len(order) == 1:
        return chart.properties(title=title)
    facet = alt.Facet(
        "panel:N",
        sort=order,
        title=None,
        header=alt.Header(labelExpr="split(datum.label, ': ')"),
    )
    return chart.facet(facet=facet, columns=len(order), title=title, spacing=_APART_PX)


_APART_PX = 12
"""Between panels that share an axis."""


def _rectangles(frame: pl.DataFrame) -> pl.DataFrame:
    """A row a rectangle, in MB, with its panel."""
    kind = pl.col("kind").replace(dict.fromkeys(("input", "constant", "folded", "unused"), "other"))
    inside = frame.filter(pl.col("node").is_not_null())
    smallest = SMALLEST * pl.lit(frame["total_bytes"]).max()
    inside = inside.filter(pl.col("bytes") >= smallest)
    outside = (
        frame.filter(pl.col("node").is_null())
        .with_columns(kind)
        .group_by("planner", "kind", maintain_order=True)
        .agg(
            pl.col("bytes").sum(),
            pl.format("{} tensors", pl.len()).alias("name"),
            pl.col("first", "last", "total_bytes", "bound_bytes").first(),
        )
        .with_columns(offset=-pl.col("bytes").cum_sum().over("planner"))
    )
    rows = pl.concat([inside, outside], how="diagonal_relaxed")
    panels = {one["planner"]: _panel(one) for one in frame.unique("planner").to_dicts()}
    return rows.select(
        "name",
        kind,
        "first",
        "last",
        panel=pl.col("planner").replace_strict(panels),
        mb=(pl.col("bytes") / MB).round(3),
        from_mb=(pl.col("offset") / MB).round(3),
        to_mb=((pl.col("offset") + pl.col("bytes")) / MB).round(3),
        bound_mb=(pl.col("bound_bytes") / MB).round(3),
    )


def _panel(row: Mapping[str, Any]) -> str:
    title = PLANNER_TITLES.get(row["planner"], row["planner"])
    return f"{title}: {megabytes(row['total_bytes'])}"


def megabytes(size_bytes: int) -> str:
    """As text, to three digits or to a megabyte."""
    mb = size_bytes / MB
    return f"{mb:,.0f} MB" if mb >= 100 else f"{mb:.3g} MB"


def planners(frame: pl.DataFrame) -> alt.FacetChart:
    """Bytes of every planner over the bound of the best order, a panel for training."""
    drawn = parts.titled(frame, model=MODEL_TITLES, planner=PLANNER_TITLES).with_columns(
        panel=_phase()
    )
    order = parts.present(frame["planner"], PLANNER_TITLES)
    models = parts.present(frame["model"], MODEL_TITLES)
    points = (
        alt.Chart(drawn)
        .mark_point(size=32)
        .encode(
            x=alt.X(
                "over_bound:Q",
                title="bytes over the bound",
                scale=alt.Scale(type="log", nice=False, padding=6),
                axis=alt.Axis(values=[1, 1.5, 2, 3, 5, 10, 20, 50], format="~g", grid=True),
            ),
            y=alt.Y(
                "model:N", sort=models, title=None, axis=alt.Axis(grid=True, tickBand="extent")
            ),
            yOffset=alt.YOffset("planner:N", sort=order),
            color=parts.colour("planner", order),
            shape=parts.shape("planner", order),
        )
        .properties(height=42 * len(models))
    )
    title = [
        "Memory of results by planner",
        "bound: most bytes alive at once in the workbench's order",
    ]
    panels = drawn["panel"].unique(maintain_order=True).to_list()
    return parts.facets(points, "panel", panels, title)


def _phase() -> pl.Expr:
    step = pl.format("step of training, batch {}", "batch_size")
    return pl.when("training").then(step).otherwise(pl.lit("inference"))


COUNTING_TITLES = {"library": "library", "single": "library", "workbench": "PyTorch"}
"""Whose operators' results are counted."""


def table2(frame: pl.DataFrame) -> alt.FacetChart:
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
    rows = alt.Y(
        "counting:N",
        sort=["the paper", *named["counting"].unique(maintain_order=True)],
        title=None,
        axis=alt.Axis(labelLimit=0),
    )
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
    found = parts.facets(chart, "panel", panels, title, columns=1)
    found.resolve = alt.Resolve(scale=alt.ScaleResolveMap(x="independent"))
    return found


_MEMORIES = {"without": "every result kept", "with": "planned"}


def table2_times(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds without and with a plan, on this machine and in the paper, a panel per network."""
    shown = {
        "without": ("plain_s", "paper_without_s"),
        "execution": ("execution_s", "paper_execution_s"),
        "build": ("build_s", "paper_build_s"),
    }
    rows = [
        (f"{MODEL_TITLES.get(row['model'], row['model'])}", where, name, row[columns[at]])
        for row in frame.to_dicts()
        for name, columns in shown.items()
        for at, where in enumerate(("this machine", "the paper's"))
    ]
    drawn = pl.DataFrame(rows, ["panel", "where", "part", "seconds"], orient="row")
    drawn = drawn.with_columns(
        way=pl.when(part="without").then(pl.lit("without plan")).otherwise(pl.lit("with plan"))
    )
    bars: alt.FacetChart = (
        alt.Chart(drawn)
        .mark_bar()
        .encode(
            x=alt.X("sum(seconds):Q", title="seconds"),
            y=alt.Y("way:N", sort=["without plan", "with plan"], title=None),
            color=parts.colour("part", list(shown)),
            order=alt.Order("part:N", sort="descending"),
            row=alt.Row(
                "panel:N", title=None, sort=drawn["panel"].unique(maintain_order=True).to_list()
            ),
            column=alt.Column("where:N", title=None, sort="descending"),
        )
        .properties(height=36)
        .resolve_scale(x="independent")
    )
    repeats = frame["repeats"][0]
    bars.title = ["Table II: time of inference", f"median of {repeats} on this machine"]
    return bars


def trade(frame: pl.DataFrame) -> alt.Chart:
    """Work that is done again against the bytes of the plan, a line per network."""
    found = frame.filter(pl.col("total_bytes").is_not_null())
    drawn = parts.titled(found, model=MODEL_TITLES).with_columns(mb=pl.col("total_bytes") / MB)
    row = frame.row(0, named=True)
    missing = len(frame) - len(found)
    left_out = [f"no plan found for {missing} budgets"] if missing else []
    what = f"a step of training, batch {row['batch_size']}" if row["training"] else "inference"
    title = ["Less memory for more computing", what, *left_out]
    chart: alt.Chart = (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "bytes_percent:Q",
                title="bytes of results, % of a plan that repeats nothing",
                scale=alt.Scale(zero=False),
            ),
            y=alt.Y("extra_percent:Q", title="work done again, %"),
            tooltip=["model:N", "mb:Q", "extra_percent:Q", "recomputed:Q"],
            **figures.series("model", parts.present(found["model"], MODEL_TITLES)),
        )
        .properties(height=190, title=title)
    )
    return chart


SECONDS = {"predicted_s": "predicted by the roofline", "arena_s": "measured"}


def trade_times(frame: pl.DataFrame) -> alt.VConcatChart:
    """Seconds of a step in the arena over PyTorch's, against bytes, a line per network.

    Below, how much longer less memory takes than computing nothing again: predicted and measured.
    """
    found = frame.filter(pl.col("total_bytes").is_not_null())
    drawn = parts.titled(found, model=MODEL_TITLES).with_columns(
        ratio=pl.col("arena_s") / pl.col("plain_s"),
        mb=pl.col("arena_bytes") / MB,
        plain_mb=pl.col("plain_bytes") / MB,
    )
    row = frame.row(0, named=True)
    title = [
        "Time of a step of training in the arena",
        f"batch {row['batch_size']}, median of {row['repeats']} on this machine",
    ]
    names = parts.present(found["model"], MODEL_TITLES)
    held = alt.X("mb:Q", title="MB held", scale=alt.Scale(zero=True))
    ratios = (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=held,
            y=alt.Y("ratio:Q", title="seconds over PyTorch's", scale=alt.Scale(zero=True)),
            tooltip=["model:N", "mb:Q", "plain_mb:Q", "arena_s:Q", "extra_percent:Q"],
            **figures.series("model", names),
        )
        .properties(height=150)
    )
    longer = drawn.unpivot(
        on=["predicted_s", "arena_s"], index=["model", "mb", "share"], variable_name="seconds"
    ).with_columns(
        pl.col("seconds").replace_strict(SECONDS),
        percent=100
        * (pl.col("value") / pl.col("value").sort_by("share").last() - 1).over("model", "seconds"),
    )
    points = (
        alt.Chart(longer)
        .mark_point(filled=True, size=50)
        .encode(
            x=held,
            y=alt.Y("percent:Q", title="longer than with all kept, %"),
            color=parts.colour("model", names, legend=None),
            shape=parts.shape("seconds", list(SECONDS.values())),
        )
        .properties(height=110)
    )
    chart: alt.VConcatChart = alt.vconcat(ratios, points, title=title).resolve_scale(
        shape="independent"
    )
    return chart

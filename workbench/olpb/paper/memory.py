"""Memory: every planner on every network, and plans as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.memory.plan import MemoryPlan
from workbench.memory.planning import PLANNERS, plan_memory
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.olpb.paper.titles import (
    MB,
    MODEL_TITLES,
    PLANNER_TITLES,
    megabytes,
    model_title,
    phase_title,
)
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

PLANNED: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    **dict.fromkeys(("batch_size", "operators"), pl.Int64),
    "planner": pl.String,
    **dict.fromkeys(("bytes", "bound_bytes"), pl.Int64),
    "over_bound": pl.Float64,
    "weight_bytes": pl.Int64,
}


def planners(models: Sequence[str], batch_size: int = 4) -> pl.DataFrame:
    """Bytes that every planner needs for networks of the zoo, over what the best order needs.

    A row per network, inference of one sample or a step of training, and planner: ``model,
    training, batch_size, operators`` of the optimised graph, ``planner, bytes``, ``bound_bytes``,
    most alive at once in the workbench's order, ``over_bound``, the ratio of both, and
    ``weight_bytes``, which no plan changes and which are not in the others.
    """
    points = grid(model=models, training=(False, True))
    return sweep(_by_planner, points, PLANNED, title="Planners", shared={"samples": batch_size})


def _by_planner(model: str, training: bool, samples: int) -> list[dict[str, Any]]:
    batch_size = samples if training else 1
    flow = stored_dataflow(model, batch_size, training)
    plans = {name: plan_memory(flow, name) for name in PLANNERS}
    bound_bytes = plans["workbench"].bound_bytes
    return [
        {
            "batch_size": batch_size,
            "operators": len(flow.steps),
            "planner": name,
            "bytes": plan.total_bytes,
            "bound_bytes": bound_bytes,
            "over_bound": plan.total_bytes / bound_bytes,
            "weight_bytes": flow.held_bytes("weight"),
        }
        for name, plan in plans.items()
    ]


def draw_planners(frame: pl.DataFrame) -> alt.FacetChart:
    """Bytes of every planner over the bound of the best order, a panel for training."""
    phases = pl.format("step of training, batch {}", "batch_size")
    drawn = parts.titled(frame, model=MODEL_TITLES, planner=PLANNER_TITLES).with_columns(
        panel=pl.when("training").then(phases).otherwise(pl.lit("inference"))
    )
    order = parts.present(frame["planner"], PLANNER_TITLES)
    models = parts.present(frame["model"], MODEL_TITLES)
    bands = alt.Axis(grid=True, tickBand="extent")
    marks = alt.Chart(drawn, height=42 * len(models)).mark_point(size=32)
    points = marks.encode(
        x=alt.X(
            "over_bound:Q",
            title="bytes over the bound",
            scale=alt.Scale(type="log", nice=False, padding=6),
            axis=alt.Axis(values=[1, 1.5, 2, 3, 5, 10, 20, 50], format="~g", grid=True),
        ),
        y=alt.Y("model:N", sort=models, title=None, axis=bands),
        yOffset=alt.YOffset("planner:N", sort=order),
        color=parts.colour("planner", order),
        shape=parts.shape("planner", order),
    )
    title = [
        "Memory of results by planner",
        "bound: most bytes alive at once in the workbench's order",
    ]
    panels = drawn["panel"].unique(maintain_order=True).to_list()
    return parts.facets(points, "panel", panels, title)


PLACED: dict[str, Any] = {
    "model": pl.String,
    "training": pl.Boolean,
    "batch_size": pl.Int64,
    "planner": pl.String,
    "node": pl.Int64,
    **dict.fromkeys(("name", "kind"), pl.String),
    **dict.fromkeys(("offset", "bytes", "first", "last"), pl.Int64),
    **dict.fromkeys(("steps", "total_bytes", "bound_bytes"), pl.Int64),
}


def arena(
    model: str = "googlenet",
    training: bool = True,
    batch_size: int = 4,
    planners: Sequence[str] = ("none", "pebble", "workbench"),
) -> pl.DataFrame:
    """Places of all results in the block, and their times, under several planners.

    A row per planner and result: ``node, name, kind, offset, bytes, first, last`` as in
    `workbench.memory.MemoryPlan.table`; and of the plan ``steps, total_bytes, bound_bytes``. What
    is held outside of the block, weights, inputs and constants, has no node, and offsets below 0.
    """
    flow = stored_dataflow(model, batch_size, training)
    plans = [plan_memory(flow, name) for name in planners]
    return pl.concat(placed(plan, model, training, batch_size) for plan in plans)


def placed(plan: MemoryPlan, model: str, training: bool, batch_size: int) -> pl.DataFrame:
    """Rows of `arena` for one plan."""
    about = {
        "model": model,
        "training": training,
        "batch_size": batch_size,
        "planner": plan.planner,
        "steps": len(plan.order),
        "total_bytes": plan.total_bytes,
        "bound_bytes": plan.bound_bytes,
    }
    # What is held outside of the block lies below address 0.
    held = [(tensor.name, tensor.kind, tensor.size_bytes) for tensor in plan.flow.held]
    schema = {name: PLACED[name] for name in ("name", "kind", "bytes")}
    outside = pl.DataFrame(held, schema, orient="row").filter(pl.col("bytes") > 0)
    outside = outside.with_columns(
        offset=-pl.col("bytes").cum_sum(), first=0, last=pl.lit(len(plan.order))
    )
    rows = pl.concat([plan.table, outside], how="diagonal_relaxed")
    rows = rows.with_columns(**{name: pl.lit(value) for name, value in about.items()})
    return rows.select(*PLACED).cast(pl.Schema(PLACED))


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
"""Lowest rectangle that is drawn, over the highest block of a picture."""
_APART_PX = 12
"""Distance between panels that share an axis."""


def draw_arena(frame: pl.DataFrame) -> alt.FacetChart | alt.LayerChart:
    """Results by address and step, a panel per planner.

    What is held outside of the block is below zero, and its kinds are drawn as one. The dashed line
    is the bound, the most bytes alive at once in the planner's order. Results lower than a
    thousandth of the highest block are left out.
    """
    drawn = _rectangles(frame)
    order = [_panel(row) for row in frame.unique("planner", maintain_order=True).to_dicts()]
    present = [kind for kind in KIND_COLOURS if kind in set(drawn["kind"])]
    scale = alt.Scale(domain=present, range=[KIND_COLOURS[kind] for kind in present])
    legend = alt.Legend(symbolStrokeWidth=0)
    base = alt.Chart()
    # Channels as objects: altair takes ten times as long to tell what a text or a list means.
    blocks = base.mark_rect(
        aria=False, stroke=figures.INK, strokeOpacity=0.25, strokeWidth=0.3
    ).encode(
        x=alt.X("first:Q", title="step", scale=alt.Scale(nice=False)),
        x2=alt.X2("last:Q"),
        y=alt.Y("from_mb:Q", title="address, MB", scale=alt.Scale(nice=False)),
        y2=alt.Y2("to_mb:Q"),
        color=alt.Color("kind:N", title=None, scale=scale, legend=legend),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("name", "kind")]
        + [alt.Tooltip(f"{name}:Q") for name in ("mb", "from_mb", "first", "last")],
    )
    bound = base.mark_rule(strokeDash=[4, 2], strokeWidth=1).encode(y=alt.Y("max(bound_mb):Q"))
    ground = base.mark_rule(strokeWidth=0.5).encode(y=alt.datum(0))
    row = frame.row(0, named=True)
    title = [
        f"{model_title(row)}, {phase_title(row)}",
        *(order if len(order) == 1 else []),
        "dashed: most bytes alive at once",
        "below 0: held outside of the block",
    ]
    chart = alt.LayerChart(data=drawn, layer=[blocks, ground, bound], height=240)
    if len(order) == 1:
        return chart.properties(title=title)
    header = alt.Header(labelExpr="split(datum.label, ': ')")
    facet = alt.Facet("panel:N", sort=order, title=None, header=header)
    return chart.facet(facet=facet, columns=len(order), title=title, spacing=_APART_PX)


def _rectangles(frame: pl.DataFrame) -> pl.DataFrame:
    """A row a rectangle, in MB, with its panel."""
    kind = pl.col("kind").replace(dict.fromkeys(("input", "constant", "folded", "unused"), "other"))
    is_seen = pl.col("bytes") >= SMALLEST * frame["total_bytes"].max()  # type: ignore[operator]
    inside = frame.filter(pl.col("node").is_not_null() & is_seen)
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
    panels = {row["planner"]: _panel(row) for row in frame.unique("planner").to_dicts()}
    return rows.select(
        "name",
        kind,
        "first",
        "last",
        panel=pl.col("planner").replace_strict(panels),
        mb=_megabytes(pl.col("bytes")),
        from_mb=_megabytes(pl.col("offset")),
        to_mb=_megabytes(pl.col("offset") + pl.col("bytes")),
        bound_mb=_megabytes(pl.col("bound_bytes")),
    )


def _megabytes(size_bytes: pl.Expr) -> pl.Expr:
    return (size_bytes / MB).round(3)


def _panel(row: Mapping[str, Any]) -> str:
    title = PLANNER_TITLES.get(row["planner"], row["planner"])
    return f"{title}: {megabytes(row['total_bytes'])}"


_NETWORKS = ("cifarnet", "squeezenet", "vgg16", "googlenet", "resnet50", "inception_v3")
PLANNERS_BYTES = Figure(
    id="planners",
    compute=planners,
    chart=draw_planners,
    sizes={
        "models": Scaled(
            smoke=("lenet5", "cifarnet"),
            default=_NETWORKS,
            paper=(*_NETWORKS, "mobilenet_v2", "resnet152", "inception_v4", "mask_rcnn"),
        )
    },
)

ARENA = Figure(
    id="arena",
    compute=arena,
    chart=draw_arena,
    sizes={"model": Scaled(smoke="lenet5", default="googlenet", paper="googlenet")},
)

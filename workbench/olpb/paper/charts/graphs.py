"""Charts of operator graphs: frames of `workbench.olpb.paper.experiments.graphs`."""

from __future__ import annotations

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.olpb.paper.charts.memory import MB, MODEL_TITLES

COUNTS = {"nodes": "nodes", "edges": "edges"}
FATES = {
    "stays": "stays",
    "views": "view: read in its place",
    "fused": "fused into what follows",
    "folded": "computed before all runs",
    "left out": "left out",
    "source": "input, parameter, constant",
}
_FATE_OF = {
    "views": "views",
    "constant folding": "folded",
    "normalisation into convolution": "fused",
    "addition and ReLU into convolution": "fused",
}
_FATE_COLOURS = {
    "stays": "#17315f",
    "views": "#9dbfe6",
    "fused": "#e38b2c",
    "folded": "#2a7f74",
    "left out": "#8f2f3c",
    "source": "#c9c9c9",
}
PHASES = ("forward", "backward", "update")


def optimiser(frame: pl.DataFrame) -> alt.FacetChart:
    """What is left of the graph after each pattern, in percent; the paper's is the grey line."""
    drawn = pl.concat(
        frame.select(
            pattern=_numbered(),
            panel=pl.lit(title),
            count=pl.col(count),
            left=100 - pl.col(f"{count}_removed_percent"),
            before=100 - pl.col(f"{count}_removed_percent").shift(1, fill_value=0.0),
            paper=100 - pl.col(f"paper_{count}_removed_percent"),
        )
        for count, title in COUNTS.items()
    )
    order = frame.select(_numbered()).to_series().to_list()
    base = alt.Chart().encode(
        y=alt.Y("pattern:N", sort=order, title=None, axis=alt.Axis(labelLimit=0))
    )
    left = alt.X("left:Q", title="% of the graph as traced", scale=alt.Scale(domain=[0, 100]))
    kept = base.mark_bar(color=figures.PALETTE[0]).encode(x=left)
    gone = base.mark_bar(color=figures.PALETTE[1]).encode(x=left, x2="before:Q")
    numbers = base.mark_text(align="right", dx=-4, color="white").encode(x=left, text="count:Q")
    paper = base.mark_rule(color=parts.GREY, strokeDash=[4, 2], strokeWidth=1.5).encode(
        x="mean(paper):Q", y=alt.Y()
    )
    title = [
        "Training of the LeNet-like network, optimised",
        *parts.wrapped(
            "orange: what a pattern removes", "grey: left in the paper, of its own graph"
        ),
    ]
    chart = alt.layer(kept, gone, numbers, paper, data=drawn).properties(height=26 * len(order))
    return parts.facets(chart, "panel", list(COUNTS.values()), title)


def _numbered() -> pl.Expr:
    """A pattern's name, with its round where that is not the first."""
    again = pl.format("{} (round {})", "pattern", "round")
    return pl.when(pl.col("round") > 1).then(again).otherwise("pattern").alias("pattern")


def graph(frame: pl.DataFrame) -> alt.LayerChart:
    """A small network's graph, levels downwards; what the optimiser removes has its own colour.

    Parameters and constants stand beside the operator that reads them first, one level above it.
    """
    nodes = _placed(frame)
    spots = nodes.select("node", "x", "y")
    edges = (
        nodes.select(pl.col("sources").alias("node"), x2="x", y2="y")
        .explode("node")
        .drop_nulls("node")
        .join(spots, on="node")
        .sort("node", "y2", "x2")
    )
    deepest = int(nodes["y"].max())  # type: ignore[arg-type]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(nice=False, padding=12))
    y = alt.Y(
        "y:Q",
        title="level",
        scale=alt.Scale(domain=[-0.5, deepest + 0.5], nice=False, reverse=True),
        axis=alt.Axis(tickMinStep=1, format="d", grid=False),
    )
    lines = (
        alt.Chart(edges)
        .mark_rule(color=parts.GREY, strokeWidth=0.5, aria=False)
        .encode(x=x, y=y, x2="x2:Q", y2="y2:Q")
    )
    present = [fate for fate in FATES if fate in set(nodes["fate"])]
    dots = (
        alt.Chart(nodes.with_columns(pl.col("fate").replace_strict(FATES)))
        .mark_circle(size=45, opacity=1)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "fate:N",
                title=None,
                sort=None,
                scale=alt.Scale(
                    domain=[FATES[fate] for fate in present],
                    range=[_FATE_COLOURS[fate] for fate in present],
                ),
                legend=alt.Legend(columns=3),
            ),
            tooltip=["name:N", "kind:N", "phase:N", "bytes:Q", "removed_by:N"],
        )
    )
    named = nodes.filter(pl.col("kind") == "operator").with_columns(
        name=pl.col("name").str.replace_all("_", " ").str.slice(0, _LETTERS)
    )
    names = (
        alt.Chart(named).mark_text(align="left", dx=6, fontSize=7).encode(x=x, y=y, text="name:N")
    )
    row = frame.row(0, named=True)
    model = MODEL_TITLES.get(row["model"], row["model"])
    what = "a step of training" if row["training"] else "inference"
    left = int(nodes["fate"].is_in(["stays", "source"]).sum())
    title = [f"{model}, {what}: {len(frame)} nodes, {left} of them stay"]
    return alt.layer(lines, dots, names).properties(
        height=max(120, 15 * (deepest + 1)), title=title
    )


_LETTERS = 24
"""Of an operator's name."""


def _placed(frame: pl.DataFrame) -> pl.DataFrame:
    """With a place for each node: ``y``, its level, and ``x``, near those that it reads from."""
    readers: dict[int, int] = {}
    for node, sources in frame.select("node", "sources").iter_rows():
        for source in sources:
            readers.setdefault(source, node)
    level = dict(frame.select("node", "level").iter_rows())
    kind = dict(frame.select("node", "kind").iter_rows())
    y = {
        node: level[node] if kind[node] in ("operator", "input") else level[readers[node]] - 1
        for node in level
        if kind[node] in ("operator", "input") or node in readers
    }
    x: dict[int, float] = {}
    taken: dict[int, set[int]] = {}
    sources_of = dict(frame.select("node", "sources").iter_rows())
    main = sorted(y, key=lambda node: (y[node], kind[node] != "operator", node))
    for node in main:
        near = [
            x[source] for source in sources_of[node] if source in x and kind[source] != "parameter"
        ]
        wanted = round(sum(near) / len(near)) if near else 0
        free = taken.setdefault(y[node], set())
        place = min(
            (
                one
                for one in range(-len(free) - 1 + wanted, wanted + len(free) + 2)
                if one not in free
            ),
            key=lambda one: (abs(one - wanted), one),
        )
        free.add(place)
        x[node] = place
    fate = pl.col("removed_by").replace(_FATE_OF)
    fate = pl.when(pl.col("kind") != "operator").then(pl.lit("source")).otherwise(fate)
    known = pl.when(fate.is_null()).then(pl.lit("stays")).otherwise(fate)
    return frame.filter(pl.col("node").is_in(list(y))).with_columns(
        x=pl.col("node").replace_strict(x, return_dtype=pl.Float64),
        y=pl.col("node").replace_strict(y, return_dtype=pl.Int64),
        fate=pl.when(known.is_in(list(FATES))).then(known).otherwise(pl.lit("left out")),
    )


def levels(frame: pl.DataFrame) -> alt.VConcatChart:
    """Operators by level, and below the bytes that have to be alive there, a column per network."""
    drawn = parts.titled(frame, model=MODEL_TITLES).with_columns(mb=pl.col("alive_bytes") / MB)
    models = parts.present(frame["model"], MODEL_TITLES)
    x = alt.X("level:Q", title="level", scale=alt.Scale(nice=False))
    phases = [phase for phase in PHASES if phase in set(frame["phase"])]
    counts = (
        alt.Chart(drawn)
        .mark_bar(aria=False, strokeWidth=0)
        .encode(
            x=x,
            x2="next:Q",
            y=alt.Y("operators:Q", title="operators"),
            color=parts.colour("phase", phases),
            order=alt.Order("phase:N"),
        )
        .transform_calculate(next="datum.level + 1")
        .properties(height=70)
    )
    alive = (
        alt.Chart(drawn.filter(pl.col("mb").is_not_null()))
        .mark_area(interpolate="step-after", color=parts.GREY, aria=False)
        .encode(x=x, y=alt.Y("mb:Q", title="MB alive"))
        .properties(height=90)
    )
    rows = [
        one.facet(
            facet=alt.Facet("model:N", sort=models, title=None),
            columns=len(models),
            spacing=parts.APART_PX,
        ).resolve_scale(x="independent", y="independent")
        for one in (counts, alive)
    ]
    what = "a step of training" if frame["training"][0] else "inference"
    return alt.vconcat(*rows).properties(title=f"Operators and memory by level, {what}")

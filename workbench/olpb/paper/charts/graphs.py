"""Charts of operator graphs: frames of `workbench.olpb.paper.experiments.graphs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.olpb.paper.charts.memory import MB, MODEL_TITLES

COUNTS = {"nodes": "nodes", "edges": "edges"}
PATTERN_TITLES = {
    "normalisation into convolution": "fused: normalisation",
    "addition and ReLU into convolution": "fused: addition, ReLU",
    "common subexpressions": "computed twice",
}
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
        "orange: what a pattern removes",
        "grey: left in the paper, of its own graph",
    ]
    layers = [kept, gone, numbers, paper]
    chart = alt.LayerChart(data=drawn, layer=layers, height=26 * len(order))
    return parts.facets(chart, "panel", list(COUNTS.values()), title)


def _numbered() -> pl.Expr:
    """A pattern's title, with its round where that is not the first."""
    title = pl.col("pattern").replace(PATTERN_TITLES)
    again = pl.format("{} (round {})", title, "round")
    return pl.when(pl.col("round") > 1).then(again).otherwise(title).alias("pattern")


def graph(frame: pl.DataFrame) -> alt.LayerChart:
    """A small network's graph: forward to the right, backward and update back below it.

    Columns are levels, those of the backward pass stretched to as many. What follows from
    parameters and constants alone stands above the operator that reads it first. What the optimiser
    removes has its own colour. A deep network's graph goes down the page instead.
    """
    nodes = _placed(frame)
    is_flat = nodes.filter(pl.col("y") >= _MOST_ACROSS).is_empty()
    if is_flat:
        nodes = nodes.rename({"x": "y", "y": "x"})
    beside = _FLAT if is_flat else _TALL
    ends = [
        [float(nodes[axis].min()) - before, float(nodes[axis].max()) + after]  # type: ignore[arg-type]
        for axis, (before, after) in beside.items()
    ]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(nice=False, domain=ends[0]))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(nice=False, reverse=True, domain=ends[1]))
    named = nodes.filter(pl.col("is_main")).with_columns(_short().alias("name"))
    text = alt.Chart(named).encode(x=x, y=y, text="name:N")
    names = (
        text.mark_text(baseline="top", dy=6, fontSize=8, lineBreak=" ", aria=False)
        if is_flat
        else text.mark_text(align="left", dx=6, fontSize=8, aria=False)
    )
    row = frame.row(0, named=True)
    model = MODEL_TITLES.get(row["model"], row["model"])
    what = "a step of training" if row["training"] else "inference"
    stay = int(frame["removed_by"].null_count())
    title = [f"{model}, {what}", f"{len(frame)} nodes, of which {stay} stay"]
    layers = [_lines(nodes, x, y), _dots(nodes, x, y), names]
    height = (_LANE_PX if is_flat else _ROW_PX) * (ends[1][1] - ends[1][0])
    return alt.LayerChart(layer=layers, height=height, title=title)


_MOST_ACROSS = 14
"""Levels whose names have room beside each other."""
_FLAT = {"x": (0.5, 0.5), "y": (0.15, 0.3)}
_TALL = {"x": (0.1, 1.0), "y": (0.7, 0.7)}
"""Room around the nodes for their names, by the way that the levels go."""
_LANE_PX, _ROW_PX = 110, 17


def _lines(nodes: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    """Who reads whose result; from sources in a paler grey."""
    edges = (
        nodes.select(pl.col("sources").alias("node"), x2="x", y2="y", target="node")
        .explode("node")
        .drop_nulls("node")
        .join(nodes.select("node", "x", "y", "kind"), on="node")
        .sort("node", "target")
    )
    colour = (
        alt.when(alt.datum.kind == "operator")
        .then(alt.value(parts.GREY))
        .otherwise(alt.value("#cccccc"))
    )
    lines = alt.Chart(edges).mark_rule(strokeWidth=0.5, aria=False)
    chart: alt.Chart = lines.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", color=colour)
    return chart


def _dots(nodes: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    """Nodes, coloured by what the optimiser does with them."""
    present = [fate for fate in FATES if fate in set(nodes["fate"])]
    scale = alt.Scale(
        domain=[FATES[fate] for fate in present], range=[_FATE_COLOURS[fate] for fate in present]
    )
    chart: alt.Chart = (
        alt.Chart(nodes.with_columns(pl.col("fate").replace_strict(FATES)))
        .mark_circle(size=36, opacity=1)
        .encode(
            x=x,
            y=y,
            color=alt.Color("fate:N", title=None, scale=scale, legend=alt.Legend(columns=2)),
            tooltip=["name:N", "kind:N", "phase:N", "level:Q", "bytes:Q", "removed_by:N"],
        )
    )
    return chart


def _short() -> pl.Expr:
    """An operator's name, short enough to stand beside it."""
    name = pl.col("name").str.strip_chars("_")
    for long, short in _SHORTER.items():
        name = name.str.replace(long, short, literal=True)
    return name.str.replace_all("_", " ")


_SHORTER = {
    "max_pool2d_with_indices": "max_pool",
    "threshold_backward": "relu_backward",
    "native_batch_norm": "normalisation",
    "_backward_data": "_backward",
}

_BESIDE = 0.22
"""Of a column: between an operator and what it reads of parameters."""


def _placed(frame: pl.DataFrame) -> pl.DataFrame:
    """With a place for each node: ``x`` and ``y``; ``is_main``, if it follows from an input."""
    rows = {row["node"]: row for row in frame.iter_rows(named=True)}
    main = _following(rows)
    forward = [node for node in main if rows[node]["phase"] in (None, "forward")]
    others = [node for node in main if rows[node]["phase"] not in (None, "forward")]
    deep = max((rows[node]["level"] for node in forward), default=0)
    higher = max((rows[node]["level"] - deep for node in others), default=1)
    height = max(deep, higher - 1)
    place = _columns(rows, forward, 0, lambda level: level * height / max(deep, 1))
    turned = _columns(
        rows, others, 2, lambda level: height - (level - deep - 1) * height / max(higher - 1, 1)
    )
    place |= turned
    for node in main:  # its parameters, and what follows from them alone
        waiting, slots = [*rows[node]["sources"]], 0
        while waiting:
            source = waiting.pop(0)
            if source in place:
                continue
            slots += 1
            x, y = place[node]
            place[source] = (x - _BESIDE * slots, y - 0.3 * (slots % 2))
            waiting += rows[source]["sources"]
    alone = [node for node in rows if node not in place]  # read by nothing that is shown
    beyond = min((x for x, _ in place.values()), default=0) - 2 * _BESIDE
    place |= {node: (beyond, at * height / len(alone)) for at, node in enumerate(alone)}
    fate = pl.col("removed_by").replace_strict(_FATE_OF, default="left out")
    fate = pl.when(pl.col("removed_by").is_null()).then(pl.lit("stays")).otherwise(fate)
    spots = [(node, float(x), float(y)) for node, (x, y) in place.items()]
    schema = {"node": pl.Int64, "x": pl.Float64, "y": pl.Float64}
    return frame.join(pl.DataFrame(spots, schema, orient="row"), on="node").with_columns(
        is_main=pl.col("node").is_in(main),
        fate=pl.when(pl.col("kind") == "operator").then(fate).otherwise(pl.lit("source")),
    )


def _following(rows: Mapping[int, Mapping[str, Any]]) -> list[int]:
    """The first input, and nodes that follow from it, in their order."""
    found = dict[int, None]()
    for node, row in rows.items():
        is_first = row["kind"] == "input" and not found
        if is_first or any(source in found for source in row["sources"]):
            found[node] = None
    return list(found)


def _columns(
    rows: Mapping[int, Mapping[str, Any]],
    nodes: Sequence[int],
    first: int,
    height: Callable[[int], float],
) -> dict[int, tuple[float, float]]:
    """A column for each node, that of the deepest node that it reads from if it is free."""
    place: dict[int, tuple[float, float]] = {}
    taken: dict[int, set[float]] = {}
    for node in sorted(nodes, key=lambda one: (rows[one]["level"], one)):
        level = rows[node]["level"]
        above = [one for one in rows[node]["sources"] if one in place]
        wanted = place[max(above, key=lambda one: rows[one]["level"])][0] if above else first
        used = taken.setdefault(level, set())
        column = min(
            (wanted + step for step in range(len(used) + 1) if wanted + step not in used),
        )
        used.add(column)
        place[node] = (column, height(level))
    return place


def levels(frame: pl.DataFrame) -> alt.ConcatChart:
    """Operators by level, and below the bytes that have to be alive there, a column per network."""
    models = frame["model"].unique(maintain_order=True).to_list()
    phases = [phase for phase in PHASES if phase in set(frame["phase"])]
    columns = [
        _levels_of(frame.filter(model=model), phases, is_first=at % 2 == 0)
        for at, model in enumerate(models)
    ]
    what = "a step of training" if frame["training"][0] else "inference"
    return alt.concat(*columns, columns=2).properties(
        title=f"Operators and memory by level, {what}"
    )


def _levels_of(frame: pl.DataFrame, phases: Sequence[str], *, is_first: bool) -> alt.VConcatChart:
    order = {phase: at for at, phase in enumerate(PHASES)}
    drawn = (
        frame.sort("level", pl.col("phase").replace_strict(order))
        .with_columns(top=pl.col("operators").cum_sum().over("level"), end=pl.col("level") + 1)
        .with_columns(bottom=pl.col("top") - pl.col("operators"))
    )
    last = int(frame["level"].max()) + 1  # type: ignore[arg-type]
    x = alt.X("level:Q", title="level", scale=alt.Scale(domain=[0, last], nice=False))
    counts = (
        alt.Chart(drawn)
        .mark_rect(aria=False, strokeWidth=0)
        .encode(
            x=x,
            x2="end:Q",
            y=alt.Y(
                "bottom:Q",
                title="operators" if is_first else None,
                axis=alt.Axis(format="d", tickMinStep=1),
            ),
            y2="top:Q",
            color=parts.colour("phase", phases),
        )
        .properties(height=55)
    )
    bytes_ = frame.drop_nulls("alive_bytes").select("level", mb=pl.col("alive_bytes") / MB)
    alive = (
        alt.Chart(bytes_)
        .mark_area(interpolate="step-after", color=parts.GREY, aria=False)
        .encode(x=x, y=alt.Y("mb:Q", title="MB alive" if is_first else None))
        .properties(height=60)
    )
    model = frame["model"][0]
    counts.title = MODEL_TITLES.get(model, model)
    return alt.vconcat(counts, alive)

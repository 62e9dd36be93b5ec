"""Charts of Table I and of Figs. 9 to 12."""

from __future__ import annotations

from functools import partial

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.olpb.paper.titles import (
    METHOD_TITLES,
    MODEL_TITLES,
    SCAN_TITLES,
    TENS,
    model_title,
)
from workbench.reproduction.claims import claims_of

COUNTED = {
    "layers": ("layers", "layers", "input and loss left out"),
    "nodes": ("nodes", "nodes", "input, parameters, operators, loss"),
    "params": ("param_mib", "parameters, MiB", "of 2^20 bytes"),
}
"""What Table I counts: column, title and what is meant."""


def draw_networks(frame: pl.DataFrame) -> alt.HConcatChart:
    """Layers, nodes and parameters of the paper's networks, and the paper's (the grey tick)."""
    stated = {name: claim.value for name, claim in claims_of("olpb").items()}
    order = list(MODEL_TITLES.values())
    panels: list[alt.LayerChart] = []
    for what, (column, title, _) in COUNTED.items():
        claim = pl.format("olpb.table1.{}.{}", "model", pl.lit(what))
        drawn = frame.select(
            pl.col("model").replace(MODEL_TITLES),
            ours=pl.col(column),
            paper=claim.replace_strict(stated, default=None).cast(pl.Float64),
        )
        models = alt.Y("model:N", sort=order, title=None, axis=alt.Axis(labels=not panels))
        base = alt.Chart(drawn).encode(y=models)
        ours = base.mark_point(filled=True, size=55, color=figures.PALETTE[0]).encode(
            x=alt.X(**parts.log_axis("ours", title, values=TENS))
        )
        ticks = base.mark_tick(color=parts.GREY, thickness=2).encode(
            x=alt.X("paper:Q", scale=alt.Scale(type="log"))
        )
        panels.append((ticks + ours).properties(height=110, width=150))
    heading = "Networks as the paper's library counts them (grey: Table I)"
    return alt.HConcatChart(hconcat=panels, title=heading)


_titled = partial(parts.titled, method=METHOD_TITLES, model=MODEL_TITLES)


def draw_by_network(frame: pl.DataFrame) -> alt.Chart:
    """Percent of the slowest method's time, by network and method."""
    order, models = _present(frame), list(MODEL_TITLES.values())
    title = _title(frame, "Backward pass", "nodes", "delay_factor")
    return (
        alt.Chart(_titled(frame), height=190, title=title)
        .mark_bar()
        .encode(
            x=alt.X("model:N", sort=models, title=None, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("method:N", sort=order),
            y=alt.Y("percent:Q", title="% of the slowest"),
            color=parts.colour("method", order),
        )
    )


def draw_by_nodes(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds against the number of nodes, a line per method."""
    return _lines(frame, "nodes", "nodes", _title(frame, "Backward pass", "delay_factor"), log=True)


def draw_by_delay(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds against the delay factor, a line per method."""
    title = _title(frame, "Backward pass (the range of p is assumed)", "nodes")
    return _lines(frame, "delay_factor", "delay factor p", title)


def draw_by_batch_size(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds against the batch size, a line per method, by scan."""
    subject = f"Backward pass of {model_title(frame.row(0, named=True))}"
    title = _title(frame, subject, "nodes", "delay_factor")
    return _lines(frame, "batch_size", "batch size", title, by="scan", titles=SCAN_TITLES)


def _lines(
    frame: pl.DataFrame,
    field: str,
    title: str,
    chart_title: list[str],
    *,
    by: str = "model",
    titles: dict[str, str] = MODEL_TITLES,
    log: bool = False,
) -> alt.FacetChart:
    values = sorted(frame[field].unique().to_list())
    scale = alt.Scale(type="log", base=2) if log else alt.Scale(zero=False)
    lines = (
        alt.Chart(_titled(frame).with_columns(panel=pl.col(by).replace(titles)))
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(values=values)),
            y=alt.Y("backward_s:Q", title="s a backward pass"),
            **figures.series("method", _present(frame)),
        )
        .properties(height=180)
    )
    order = parts.present(frame[by], titles)
    chart = parts.facets(lines, "panel", order, chart_title)
    return chart.resolve_scale(y="independent") if by == "model" else chart


def _title(frame: pl.DataFrame, subject: str, *held: str) -> list[str]:
    setting = frame.row(0, named=True)
    named = {"nodes": "{} nodes", "delay_factor": "p = {:g}"}
    said = [named[name].format(setting[name]) for name in held]
    if frame["batch_size"].n_unique() == 1:
        said.append(f"batch {setting['batch_size']}")
    return [
        subject,
        ", ".join(said),
        "as the paper counts (cost model); combining Jacobians costs nothing",
    ]


def _present(frame: pl.DataFrame) -> list[str]:
    return parts.present(frame["method"], METHOD_TITLES)

"""Figures of measured runs: errors, each system three ways, HierTrain's Fig. 6, two clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.comparison.validation.cases import REGIMES, Case, Outcome
from workbench.comparison.validation.errors import CASE, MEDIAN_BAR, WAYS, by_case, errors, usable
from workbench.figures import INK, PALETTE, SHAPES, parts, stacked
from workbench.reproduction import systems
from workbench.runtime import Trace

if TYPE_CHECKING:
    import altair as alt

TITLES = {**systems.TITLES, "gossip": "Gossip"}
SHOWN = {
    "naive": "bytes over bandwidth plus computing",
    "predicted": "predicted",
    "simulated": "simulated",
    "measured": "measured (median and interval)",
}
_ROW_PX = 15


def how_often(runs: pl.DataFrame) -> str:
    """How often was measured: part of a title."""
    most = max(usable(runs).group_by(*CASE).len()["len"].to_list(), default=0)
    return f"measured with processes, at most {most} usable {'run' if most == 1 else 'runs'} a case"


def draw_errors(runs: pl.DataFrame) -> alt.FacetChart:
    """Errors of all usable runs by system, and their median; a panel for each way."""
    import altair as alt

    drawn = parts.titled(errors(runs), system=TITLES).select(
        "regime",
        row="system",
        way=pl.col("way").replace(SHOWN),
        percent=100 * pl.col("error"),
    )
    rows = drawn["row"].unique().sort().to_list()
    order = [SHOWN[way] for way in WAYS]
    y = alt.Y("row:N", title=None, sort=rows)
    base = alt.Chart(drawn)
    title = "error in % of measured"
    points = base.mark_tick(thickness=1, size=10, opacity=0.5).encode(
        x=alt.X("percent:Q", title=title, axis=alt.Axis(tickCount=4)),
        y=y,
        color=parts.colour("regime", REGIMES),
    )
    medians = base.mark_point(shape="diamond", size=40, color=INK).encode(
        x=alt.X("median(percent):Q", title=title), y=y
    )
    bars = [
        base.mark_rule(color=parts.GREY, strokeDash=[2, 2]).encode(x=alt.datum(at))
        for at in (-100 * MEDIAN_BAR, 100 * MEDIAN_BAR)
    ]
    lines = [
        "How far each way is from iterations measured on one machine",
        how_often(runs),
        f"a tick: a run; diamond: median; dashed: {100 * MEDIAN_BAR:g} % off; below 0: too short",
    ]
    layers = alt.layer(*bars, points, medians).properties(height=_ROW_PX * max(3, len(rows)))
    panels = parts.facets(layers, "way", order, lines)
    found: alt.FacetChart = panels.resolve_scale(x="independent")
    return found


def draw_system(runs: pl.DataFrame, system: str) -> alt.FacetChart:
    """Milliseconds of a system's iteration each way, by choice; a panel for each setting."""
    import altair as alt

    runs = runs.filter(system=system)
    cases = by_case(runs)
    drawn = (
        cases.unpivot(
            on=[*WAYS.values(), "measured_s"],
            index=["setting", "choice", "low_s", "high_s"],
            variable_name="way",
            value_name="seconds",
        )
        .drop_nulls("seconds")
        .with_columns(pl.col("way").str.strip_suffix("_s").replace(SHOWN))
        .with_columns(
            pl.col("choice").str.replace_all("_", " "),
            ms=1e3 * pl.col("seconds"),
            low_ms=1e3 * pl.col("low_s"),
            high_ms=1e3 * pl.col("high_s"),
        )
    )
    order, x_title = list(SHOWN.values()), "milliseconds an iteration"
    choices = cases.sort("predicted_s")["choice"].str.replace_all("_", " ")
    y = alt.Y("choice:N", title=None, sort=choices.unique(maintain_order=True).to_list())
    x = alt.X("ms:Q", title=x_title, scale=alt.Scale(zero=False, nice=False, padding=12))
    base = alt.Chart(drawn)
    measured = alt.datum.way == SHOWN["measured"]
    spans = base.transform_filter(measured).mark_rule(strokeWidth=2, color=INK)
    colours = [parts.GREY, PALETTE[1], PALETTE[0], INK]
    marks = base.mark_point(filled=False, size=45, strokeWidth=1.4).encode(
        x=x,
        y=y,
        color=alt.Color("way:N", title=None, scale=alt.Scale(domain=order, range=colours)),
        shape=alt.Shape("way:N", title=None, scale=alt.Scale(domain=order, range=list(SHAPES[:4]))),
    )
    layers = alt.layer(spans.encode(x=alt.X("low_ms:Q", title=x_title), x2="high_ms:Q", y=y), marks)
    settings = cases["setting"].unique(maintain_order=True).to_list()
    chart = layers.properties(height=_ROW_PX * max(3, *cases.group_by("setting").len()["len"]))
    lines = [f"{TITLES[system]}: an iteration three ways, measured on one machine", how_often(runs)]
    if cases["measured_s"].has_nulls():
        lines.append("where nothing is measured, all runs are void")
    faceted = parts.facets(chart, "setting", settings, lines)
    found: alt.FacetChart = faceted.resolve_scale(x="independent", y="independent")
    return found


def draw_clocks(case: Case, measured: Outcome) -> dict[str, Any]:
    """A case's simulated and measured run under each other, on one axis, without requests.

    A message that is measured begins before the last byte of the one before has been received: its
    bar begins where that one's ends.
    """
    following = pl.col("start_s").shift(-1).over("node", "lane", order_by="start_s")
    traces = [
        Trace(
            run.trace.frame.filter((pl.col("kind") != "transfer") | (pl.col("bytes") > 0))
            .with_columns(end_s=pl.min_horizontal("end_s", following))
            .filter(pl.col("end_s") > pl.col("start_s"))
            .sort("node", "lane", "start_s")
        )
        for run in (case.simulated.run, measured.run)
        if run.trace is not None
    ]
    lanes = sorted({lane for trace in traces for lane in trace.frame["lane"]})
    end_s = max(trace.end_s for trace in traces)
    views = [
        trace.gantt(title=of, end_s=end_s, order=lanes)
        for trace, of in zip(traces, ("simulated", "measured with processes"), strict=True)
    ]
    title = f"{TITLES[case.system]}, {case.setting}, {case.choice}: both clocks, on one machine"
    return stacked(*views, title=[title])

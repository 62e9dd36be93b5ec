"""Charts of a comparison: rates by method, timelines, and the fastest system by setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.clusters import Link, Node, full_mesh
from workbench.comparison import intervals
from workbench.comparison.compare import TIE
from workbench.comparison.methods import EXACT, METHODS, Plan, usable
from workbench.comparison.problem import Problem
from workbench.comparison.table import KIND, KINDS, qualifies
from workbench.figures import parts, stacked
from workbench.profiles import profile_model

if TYPE_CHECKING:
    import altair as alt

ACTIONS = {"work": "computing", "transfer": "sending"}
"""Kind of a trace's row -> its name in a timeline."""
AXES = {
    "bandwidth_mbps": "bandwidth of the workers' links, Mbit/s",
    "unevenness": "fastest over slowest worker",
    "model": "model",
}
"""Axes of charts of winners, with their titles."""
SHOWN = (
    "one node, samples sent once",
    "parameter server, dynacomm",
    "all-reduce",
    "hiertrain",
    "fedavg",
)
"""Methods whose timelines are drawn."""


def rates(frame: pl.DataFrame, title: Sequence[str]) -> alt.LayerChart:
    """Draw samples a second of every method that can be used and fits, by kind of update.

    If `frame` counts methods of a kind that are ``alike``, names show the number: ``gosgd (+1)``.
    """
    known = frame.filter(pl.col("reason").is_null()).with_columns(kind=KIND.cast(pl.String))
    drawn = known.filter(pl.col("fits").fill_null(True))
    drawn = drawn.sort("kind", -pl.col("samples_per_s"), maintain_order=True)
    unfit = len(known) - len(drawn)
    left_out = [f"{unfit} methods that do not fit in memory are left out"] if unfit else []
    if "alike" in drawn.columns:
        more = pl.format("{} (+{})", "method", "alike")
        drawn = drawn.with_columns(
            method=pl.when(pl.col("alike") > 0).then(more).otherwise("method")
        )
    ends = (f"{end}_samples_per_s" for end in ("low", "high"))
    shown = drawn.select("method", "kind", "samples_per_s", *ends, "limited_by", "where", "assumes")
    about = ("method:N", "samples_per_s:Q", "limited_by:N", "where:N", "assumes:N")
    interval = "lines: 90 % intervals, by errors on times that others measured"
    return marks(shown, KINDS, about).properties(title=[*title, *left_out, interval])


def marks(frame: pl.DataFrame, kinds: Sequence[str], tooltip: Sequence[str] = ()) -> alt.LayerChart:
    """Draw a mark for each row's ``samples_per_s``, and its interval, on a logarithmic axis."""
    import altair as alt

    order = frame["method"].to_list()
    base = alt.Chart(frame).encode(
        y=alt.Y("method:N", sort=order, title=None, axis=alt.Axis(labelLimit=240)),
        color=parts.colour("kind", kinds),
    )
    x = parts.log_axis("samples_per_s", "samples a second, all nodes")
    low = x | {"shorthand": "low_samples_per_s:Q"}
    chart: alt.LayerChart = base.mark_rule().encode(
        x=alt.X(**low), x2="high_samples_per_s:Q"
    ) + base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X(**x), tooltip=list(tooltip))
    return chart.properties(height={"step": 13})


def columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of a comparison that fit on a page, rounded, for methods that can be used."""
    rows = frame.filter(pl.col("reason").is_null())
    three = [pl.col(name).round_sig_figs(3) for name in ("samples_per_s", "over_one_node")]
    percent = [
        (100 * pl.col(name)).round().cast(pl.Int64).alias(f"{what}, %")
        for name, what in (("samples_share", "of all samples"), ("waiting_share", "waiting"))
    ]
    return rows.select("method", *three, *percent, "limited_by", "fits", "update")


def timeline(problem: Problem) -> pl.DataFrame:
    """Timelines of the methods of `SHOWN` that can be used; see `traced`."""
    return traced(usable(problem, [METHODS[name] for name in SHOWN]))


def traced(plans: Mapping[str, Plan]) -> pl.DataFrame:
    """Timelines of two iterations: ``method, samples_per_s, node, action, start_s, end_s``.

    A method with two phases has one iteration of each. Methods without programs are left out.
    """
    rows = []
    for name, plan in plans.items():
        begin_s = 0.0
        for phase in plan.phases:
            trace = phase.trace(2 // len(plan.phases))
            for node, _, _, start_s, end_s, _, kind in trace.frame.iter_rows():
                if end_s > start_s:
                    times_s = begin_s + start_s, begin_s + end_s
                    action = ACTIONS[kind]
                    rows.append((name, plan.cost.samples_per_s, node, action, *times_s))
            begin_s += trace.end_s
    columns = ["method", "samples_per_s", "node", "action", "start_s", "end_s"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def timelines(frame: pl.DataFrame, title: Sequence[str]) -> dict[str, Any]:
    """Draw a panel for each method, with computing above sending in each node's row.

    All panels have one time axis, which ends at the median of the methods' ends.
    """
    import altair as alt

    ends = frame.group_by("method").agg(pl.col("end_s").max())["end_s"]
    last_s = float(ends.median() or 1.0)  # type: ignore[arg-type]
    drawn = frame.filter(pl.col("start_s") < last_s).with_columns(
        pl.col("end_s").clip(upper_bound=last_s)
    )
    names = frame["method"].unique(maintain_order=True).to_list()
    nodes = drawn["node"].unique().sort().to_list()
    panels = []
    for name in names:
        rows = drawn.filter(method=name)
        rate = frame.filter(method=name)["samples_per_s"][0]
        panels.append(
            alt.Chart(rows)
            .mark_bar()
            .encode(
                x=alt.X(
                    "start_s:Q",
                    scale=alt.Scale(domain=[0, last_s], nice=False),
                    title="virtual seconds" if name == names[-1] else None,
                ),
                x2="end_s:Q",
                y=alt.Y("node:N", sort=nodes, title=None),
                yOffset=alt.YOffset("action:N", scale=alt.Scale(domain=list(ACTIONS.values()))),
                color=parts.colour("action", list(ACTIONS.values())),
            )
            .properties(title=f"{name}: {rate:.3g} samples a second", height={"step": 7})
        )
    return stacked(*panels, title=title, independent=("y", "yOffset"))


Points = Mapping[tuple[Any, ...], Problem]
"""Values of the axes of a chart of winners -> the problem there."""


def winners(
    problems: Points, axes: Sequence[str] = ("bandwidth_mbps", "unevenness")
) -> pl.DataFrame:
    """The fastest system at each point: a column for each axis, then ``system, method, margin``.

    Only methods that equal SGD on all samples count. ``margin`` is the rate of the fastest system
    over that of the next; below `TIE` the system is ``"a tie"``, and both methods are named.
    """
    rows = []
    for point, problem in problems.items():
        best: dict[str, tuple[float, str]] = {}
        for name, plan in usable(problem, EXACT).items():
            if qualifies(problem, plan):
                system, rate = METHODS[name].system, plan.cost.samples_per_s
                best[system] = max(best.get(system, (0.0, "")), (rate, name))
        order = sorted(best.items(), key=lambda item: -item[1][0])
        margin = order[0][1][0] / order[1][1][0] if len(order) > 1 else math.nan
        system, (_, name) = order[0]
        if margin < TIE:
            system, name = "a tie", f"{name}, {order[1][1][1]}"
        rows.append((*point, system, name, margin))
    return pl.DataFrame(rows, schema=[*axes, "system", "method", "margin"], orient="row")


def draw_winners(frame: pl.DataFrame, title: Sequence[str]) -> alt.LayerChart:
    """Draw a rectangle for each point of `winners`, coloured by the fastest system."""
    import altair as alt

    across, up = frame.columns[:2]
    upward = frame[up].unique(maintain_order=True).to_list()
    base = alt.Chart(frame).encode(
        x=alt.X(f"{across}:O", title=AXES[across], axis=alt.Axis(labelAngle=0)),
        y=alt.Y(f"{up}:O", title=AXES[up], sort=upward[::-1]),
    )
    chart: alt.LayerChart = base.mark_rect(opacity=0.55).encode(
        color=parts.colour("system", frame["system"].unique().sort().to_list())
    ) + base.mark_text().encode(text=alt.Text("margin:Q", format=".2f"))
    margin = intervals.widest(*intervals.KINDS).margin
    legend = [
        "numbers: rate of the fastest system over that of the next",
        f"below {margin:.3g}, they are too close to call",
    ]
    return chart.properties(title=[*title, *legend], height={"step": 24})


MODELS_BY_SIZE = ("mobilenet_v2", "resnet50", "vgg16", "gpt2")
SIZED_GFLOPS, SIZED_NODES, SIZED_BATCH = 9000.0, 4, 16
BANDWIDTHS_MBPS = {
    "smoke": (1000.0,),
    "default": (100.0, 1000.0, 10_000.0),
    "paper": (30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0),
}


def winners_by_size(scale: str) -> pl.DataFrame:
    """The fastest system by bandwidth and model: ``bandwidth_mbps, model, system, margin``."""
    nodes = [Node(f"node{n}", flops_per_s=SIZED_GFLOPS * 1e9) for n in range(SIZED_NODES)]
    problems = {
        (mbps, model): Problem(
            profile_model(model), full_mesh(nodes, Link(mbps * 1e6, overhead_s=200e-6)), SIZED_BATCH
        )
        for model in (MODELS_BY_SIZE if scale != "smoke" else MODELS_BY_SIZE[:2])
        for mbps in BANDWIDTHS_MBPS[scale]
    }
    return winners(problems, ("bandwidth_mbps", "model"))

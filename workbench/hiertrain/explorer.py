"""HierTrain's explorer: one iteration on the paper's testbed, with its parameters on sliders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.hiertrain.algorithms import FAST
from workbench.hiertrain.costs import TIERS, Policy, Problem
from workbench.hiertrain.paper.cost_model import MODEL_TITLES, PLANNER_TITLES, by_bandwidth
from workbench.hiertrain.paper.runs import one_iteration
from workbench.hiertrain.paper.testbed import (
    BATCH_SIZE,
    CORES,
    CORES_USED,
    DEVICE_EDGE_MBPS,
    FIG11_MBPS,
    MODELS,
    Testbed,
    variant,
)
from workbench.hiertrain.programs import SOURCE
from workbench.reproduction.parameters import PARAMETERS, Parameter, Parameters
from workbench.runtime import Trace
from workbench.runtime.gantt import PHASES
from workbench.widgets import Shared, Slider

# Each keeps its colour, whichever of them a setting has.
LANES = (*PHASES[:3], *(f"to {tier}" for tier in TIERS))
# Of the curves, beside the paper's: where All-Cloud's line flattens on a fast link.
_CURVE_MBPS = (0.5, 1.0, 1.5, 2.5, FIG11_MBPS, 5.0, 7.0, 10.0)


def _link(between: str) -> Parameter:
    return Parameter(f"between {between}", "Mbit/s", low=0, high=1e7, above=True)


@dataclass(frozen=True, kw_only=True)
class Setting(Parameters):
    """Parameters with their sliders."""

    model: Annotated[str, PARAMETERS["model"].among(MODELS.values)] = MODELS["alexnet"]
    planner: Annotated[str, PARAMETERS["planner"].among(FAST.keys)] = "hiertrain"
    batch_size: Annotated[int, Slider(1, 512)] = BATCH_SIZE
    device_edge_mbps: Annotated[
        float,
        _link("a device and the edge server"),
        Slider(0.5, 100, scale="log", label="device-edge"),
    ] = DEVICE_EDGE_MBPS
    edge_cloud_mbps: Annotated[
        float,
        _link("the edge server and the cloud"),
        Slider(0.5, 100, scale="log", label="edge-cloud"),
    ] = FIG11_MBPS
    edge_cores: Annotated[
        int,
        Parameter("of the edge server, as the paper counts", low=1, high=CORES),
        Slider(1, CORES, label="edge CPUs"),
    ] = CORES_USED
    devices: Annotated[
        int,
        Parameter("that share the edge server", low=1, high=1024),
        Slider(1, 16, label="devices at the edge"),
    ] = 1


SHARED = Shared(
    "HierTrain: one iteration on device, edge and cloud",
    "Who trains which layers with how many samples, one iteration of it as a timeline, and every "
    "planner's time over the bandwidth to the cloud. Devices at the edge share its cores and its "
    "link to the cloud evenly.",
    {
        "model": tuple(MODELS.values()),
        "planner": tuple(FAST),
        "batch_size": (32, BATCH_SIZE, 512),
        "device_edge_mbps": (1.0, DEVICE_EDGE_MBPS, 20.0, 100.0),
        "edge_cloud_mbps": (0.5, 1.0, 2.0, FIG11_MBPS, 5.0, 10.0, 20.0, 50.0),
        "devices": (1, 4, 16),
    },
)


def draw(setting: Setting) -> dict[str, Any]:
    """Who trains what, the iteration that comes of it, and every planner over bandwidth."""
    model, planner, batch_size = setting.model, setting.planner, setting.batch_size
    problem, policy = _planned(setting)
    traced = _traced(problem, policy)
    # The curves are the same wherever planner and bandwidth to the cloud stand.
    curves = _curves(replace(setting, planner="hiertrain", edge_cloud_mbps=FIG11_MBPS))
    now = by_bandwidth(_testbed(setting), model, batch_size, [setting.edge_cloud_mbps])
    seconds = dict(now.select("planner", "total_s").iter_rows())
    title = [
        f"{MODEL_TITLES.get(model, model)}, {PLANNER_TITLES.get(planner, planner)}",
        f"{seconds[planner]:.3g} s an iteration (cost model)",
        f"All-Edge {seconds['all_edge']:.3g} s, All-Cloud {seconds['all_cloud']:.3g} s",
    ]
    picture = assignment(policy.table(problem.layers), problem.layers, batch_size)
    picture.title = title
    heading = f"One iteration: {traced.end_s:.3g} s (simulated)"
    timeline = traced.gantt(order=LANES, title=heading)
    return figures.stacked(
        picture,
        timeline,
        _over_bandwidth(curves, now),
        independent=("color", "opacity", "shape"),
    )


def trace(setting: Setting) -> Trace:
    """Return the timeline that `draw` shows."""
    return _traced(*_planned(setting))


def _testbed(setting: Setting) -> Testbed:
    names = ("device_edge_mbps", "edge_cloud_mbps", "edge_cores", "devices")
    return variant(**{name: getattr(setting, name) for name in names})


def _planned(setting: Setting) -> tuple[Problem, Policy]:
    problem = _testbed(setting).problem(setting.model, setting.batch_size)
    return problem, FAST[setting.planner](problem)


@lru_cache(maxsize=32)
def _curves(setting: Setting) -> pl.DataFrame:
    return by_bandwidth(_testbed(setting), setting.model, setting.batch_size, _CURVE_MBPS)


def assignment(table: pl.DataFrame, layers: int, batch_size: int) -> alt.LayerChart:
    """Who trains which layers, with how many samples: `Policy.table` of all layers."""
    drawn = table.with_columns(
        start=pl.col("first_layer") - 0.5,
        end=pl.col("last_layer") + 0.5,
        middle=(pl.col("first_layer") + pl.col("last_layer")) / 2,
        share=pl.col("samples") / batch_size,
    )
    numbers = list(range(1, layers + 1))
    tiers = alt.Y(
        "tier:N",
        title=None,
        scale=alt.Scale(domain=list(TIERS), paddingInner=0.25),
        axis=alt.Axis(domain=False),
    )
    start = alt.X(
        "start:Q",
        title="layer (number: samples)",
        scale=alt.Scale(domain=[0.5, layers + 0.5], nice=False),
        axis=alt.Axis(values=numbers if layers <= 30 else numbers[4::5], format="d", grid=False),
    )
    shades = alt.Scale(domain=[0, 1], range=[0.15, 0.6])  # light enough for text upon them
    bars = (
        alt.Chart()
        .mark_bar()
        .encode(
            y=tiers,
            x=start,
            x2=alt.X2("end:Q"),
            color=parts.colour("tier", TIERS, legend=None),
            opacity=alt.Opacity("share:Q", scale=shades, legend=None),
        )
    )
    texts = (
        alt.Chart()
        .mark_text(baseline="middle", fontWeight="bold")
        .encode(y=tiers, x=alt.X("middle:Q"), text=alt.Text("samples:Q"))
    )
    return alt.LayerChart(data=drawn, layer=[bars, texts], height=80)


def _over_bandwidth(curves: pl.DataFrame, now: pl.DataFrame) -> alt.LayerChart:
    """Every planner's curve, and a mark where the sliders stand."""
    titles = pl.col("planner").replace(PLANNER_TITLES)
    columns = ["edge_cloud_mbps", "total_s"]
    encoded = figures.series("planner", [PLANNER_TITLES.get(name, name) for name in now["planner"]])
    mbps = alt.X(
        "edge_cloud_mbps:Q",
        title="edge-cloud bandwidth in Mbit/s",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format="~g", grid=False),
    )
    seconds = alt.Y(
        "total_s:Q",
        title="seconds an iteration",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format="~g", tickCount=5),
    )
    lines = (
        alt.Chart(curves.select(*columns, titles))
        .mark_line()
        .encode(x=mbps, y=seconds, color=encoded["color"], strokeDash=encoded["strokeDash"])
    )
    points = (
        alt.Chart(now.select(*columns, titles))
        .mark_point(filled=True, size=60)
        .encode(x=mbps, y=seconds, color=encoded["color"], shape=encoded["shape"])
    )
    rule = (
        alt.Chart(now.head(1).select("edge_cloud_mbps")).mark_rule(color="#888888").encode(x=mbps)
    )
    return alt.LayerChart(
        layer=[rule, lines, points],
        height=170,
        title="All planners (cost model); the marks: here",
    )


_ROWS = (TIERS[0], SOURCE, *TIERS[1:])
_LANES = ("forward", "backward", "update")  # then what is sent


def _traced(problem: Problem, policy: Policy) -> Trace:
    """Trace of a simulated iteration, spans of no length left out, by machine and lane."""
    traced = one_iteration(problem, policy, trace=True).trace
    assert traced is not None
    spans = traced.frame.filter(pl.col("end_s") > pl.col("start_s"))
    machine = pl.col("node").replace_strict({name: row for row, name in enumerate(_ROWS)})
    lane = pl.col("lane").replace_strict(
        {name: row for row, name in enumerate(_LANES)}, default=len(_LANES)
    )
    return Trace(spans.sort(machine, lane, "lane", "start_s", maintain_order=True))

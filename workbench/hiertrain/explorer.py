"""HierTrain's explorer: one iteration on the paper's testbed, with its parameters on sliders."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypedDict, Unpack

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from workbench import figures
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.policy import Policy
from workbench.hiertrain.costs.problem import TIERS, Problem
from workbench.hiertrain.paper import charts
from workbench.hiertrain.paper.simulations import one_iteration
from workbench.hiertrain.paper.sweep import sweep
from workbench.hiertrain.paper.testbed import (
    BATCH_SIZE,
    CORES,
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    FIG11_MBPS,
    MODELS,
    variant,
)
from workbench.hiertrain.programs.cluster import SOURCE
from workbench.names import choose
from workbench.runtime import Trace
from workbench.runtime.gantt import gantt
from workbench.widgets import Control, Menu, Slider, standing_at

CONTROLS: dict[str, Control] = {
    "model": Menu(tuple(MODELS.values()), MODELS["alexnet"]),
    "planner": Menu(tuple(PLANNERS), "hiertrain"),
    "batch_size": Slider(1, 512, BATCH_SIZE, "samples", integer=True),
    "device_edge_mbps": Slider(
        0.5, 100, DEVICE_EDGE_MBPS, "Mbit/s", scale="log", step=10**0.02, label="device-edge"
    ),
    "edge_cloud_mbps": Slider(
        0.5, 100, FIG11_MBPS, "Mbit/s", scale="log", step=10**0.02, label="edge-cloud"
    ),
    "edge_cores": Slider(1, CORES, 1, integer=True, label="edge CPUs"),
    "devices": Slider(1, 16, 1, integer=True, label="devices at the edge"),
}
"""What can be moved, and how far."""

# Of the curves, beside the paper's: where All-Cloud's line flattens on a fast link.
_CURVE_MBPS = (0.5, 1.0, *EDGE_CLOUD_MBPS, 10.0)


class Setting(TypedDict):
    """Where the controls stand."""

    model: str
    planner: str
    batch_size: int
    device_edge_mbps: float
    edge_cloud_mbps: float
    edge_cores: int
    devices: int


def controls_at(**setting: Unpack[Setting]) -> dict[str, Control]:
    """Return the controls, standing at a setting; a slider reaches as far as it has to."""
    return {name: standing_at(CONTROLS[name], value) for name, value in setting.items()}


def draw(
    model: str,
    planner: str,
    *,
    batch_size: int,
    device_edge_mbps: float,
    edge_cloud_mbps: float,
    edge_cores: int,
    devices: int,
) -> alt.VConcatChart:
    """Who trains what, the iteration that comes of it, and every planner over bandwidth.

    Parameters
    ----------
    model
        Of the zoo.
    planner
        Whose policy is shown.
    batch_size
        Samples of an iteration.
    device_edge_mbps, edge_cloud_mbps
        Bandwidths of the two links.
    edge_cores
        CPUs of the edge server, as the paper counts them.
    devices
        Equal devices that share the edge server's cores and its link to the cloud.
    """
    here: dict[str, Any] = {
        "model": model,
        "batch_size": batch_size,
        "device_edge_mbps": device_edge_mbps,
        "edge_cores": edge_cores,
        "devices": devices,
    }
    problem, policy = _planned(planner, edge_cloud_mbps, here)
    traced = _traced(problem, policy)
    curves = _curves(**here)
    now = _now(here, edge_cloud_mbps)
    seconds = dict(now.select("planner", "total_s").iter_rows())
    title = [
        f"{charts.MODEL_TITLES.get(model, model)}, {charts.PLANNER_TITLES.get(planner, planner)}",
        f"{seconds[planner]:.3g} s an iteration (cost model)",
        f"All-Edge {seconds['all_edge']:.3g} s, All-Cloud {seconds['all_cloud']:.3g} s",
    ]
    # As in the Gantt chart: `to_dict` checks the whole against altair's schema, once.
    with debug_mode(False):
        picture = charts.assignment(policy.table(problem.layers), problem.layers, batch_size)
        timeline = gantt(traced, title=f"One iteration: {traced.end_s:.3g} s (simulated)")
        return alt.VConcatChart(
            vconcat=[picture.properties(title=title), timeline, _over_bandwidth(curves, now)],
            resolve=alt.Resolve(
                scale=alt.ScaleResolveMap(
                    color="independent", opacity="independent", shape="independent"
                )
            ),
        )


def trace(**setting: Unpack[Setting]) -> Trace:
    """Return the timeline that `draw` shows."""
    here: Mapping[str, Any] = setting
    rest = {
        name: value for name, value in here.items() if name not in ("planner", "edge_cloud_mbps")
    }
    problem, policy = _planned(setting["planner"], setting["edge_cloud_mbps"], rest)
    return _traced(problem, policy)


def _planned(
    planner: str, edge_cloud_mbps: float, here: Mapping[str, Any]
) -> tuple[Problem, Policy]:
    testbed = variant(
        here["device_edge_mbps"], edge_cloud_mbps, here["edge_cores"], here["devices"]
    )
    problem = testbed.problem(here["model"], here["batch_size"])
    return problem, choose("planner", planner, PLANNERS)(problem)


@lru_cache(maxsize=32)
def _curves(
    model: str, batch_size: int, device_edge_mbps: float, edge_cores: int, devices: int
) -> pl.DataFrame:
    testbed = variant(device_edge_mbps, edge_cores=edge_cores, devices=devices)
    return sweep(testbed, model, batch_size, _CURVE_MBPS)


def _now(here: Mapping[str, Any], edge_cloud_mbps: float) -> pl.DataFrame:
    testbed = variant(
        here["device_edge_mbps"], edge_cores=here["edge_cores"], devices=here["devices"]
    )
    return sweep(testbed, here["model"], here["batch_size"], [edge_cloud_mbps])


def _over_bandwidth(curves: pl.DataFrame, now: pl.DataFrame) -> alt.LayerChart:
    """Every planner's curve, and a mark where the sliders stand."""
    titles = pl.col("planner").replace(charts.PLANNER_TITLES)
    columns = ["edge_cloud_mbps", "total_s"]
    encoded = figures.series(
        "planner", [charts.PLANNER_TITLES.get(name, name) for name in now["planner"]]
    )
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
    """Simulate an iteration; what takes no time is left out, and a machine's rows are together."""
    traced = one_iteration(problem, policy, trace=True).trace
    assert traced is not None
    spans = traced.frame.filter(pl.col("end_s") > pl.col("start_s"))
    machine = pl.col("node").replace_strict({name: row for row, name in enumerate(_ROWS)})
    lane = pl.col("lane").replace_strict(
        {name: row for row, name in enumerate(_LANES)}, default=len(_LANES)
    )
    return Trace(spans.sort(machine, lane, "lane", "start_s", maintain_order=True))

"""DynaComm's explorer: one iteration on the paper's testbed, with its parameters on sliders."""

from __future__ import annotations

from typing import TypedDict, Unpack

import altair as alt

from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.costs.iteration import LayerCosts, iteration
from workbench.dynacomm.costs.timeline import timeline
from workbench.dynacomm.paper import charts
from workbench.dynacomm.paper.testbed import BANDWIDTH_MBPS, WORKERS, Constants, variant
from workbench.names import choose
from workbench.runtime import Trace
from workbench.runtime.gantt import gantt
from workbench.widgets import Control, Menu, Slider, standing_at
from workbench.zoo import MODELS

_FITTED = Constants.load()

CONTROLS: dict[str, Control] = {
    "model": Menu(tuple(MODELS), "resnet152"),
    "planner": Menu(tuple(PLANNERS), "dynacomm"),
    "batch_size": Slider(1, 128, 32, "samples", integer=True),
    "bandwidth_mbps": Slider(
        100, 40_000, BANDWIDTH_MBPS, "Mbit/s", scale="log", step=10**0.02, label="bandwidth"
    ),
    "workers": Slider(1, 32, WORKERS, integer=True),
    "overhead_ms": Slider(0, 100, _FITTED.overhead_ms, "ms", step=0.1, label="overhead"),
}
"""What can be moved, and how far."""


class Setting(TypedDict):
    """Where the controls stand."""

    model: str
    planner: str
    batch_size: int
    bandwidth_mbps: float
    workers: int
    overhead_ms: float


def controls_at(**setting: Unpack[Setting]) -> dict[str, Control]:
    """Return the controls, standing at a setting; a slider reaches as far as it has to."""
    return {name: standing_at(CONTROLS[name], value) for name, value in setting.items()}


def draw(
    model: str,
    planner: str,
    *,
    batch_size: int,
    bandwidth_mbps: float,
    workers: int,
    overhead_ms: float,
) -> alt.VConcatChart:
    """One iteration under a plan as a timeline, and every planner's time below it.

    Parameters
    ----------
    model
        Of the zoo.
    planner
        Whose plan the timeline shows.
    batch_size
        Samples of one worker.
    bandwidth_mbps
        Rate of every node's interface.
    workers
        How many share the four servers.
    overhead_ms
        Cost of every transmission: the round trip and what comes with it.
    """
    costs = _costs(model, batch_size, bandwidth_mbps, workers, overhead_ms)
    plans = {name: plan(costs) for name, plan in PLANNERS.items()}
    done = {name: iteration(costs, plan) for name, plan in plans.items()}
    chosen = choose("planner", planner, plans)
    saved = 100 * (1 - done[planner].total_s / done["sequential"].total_s)
    pulls, pushes = len(chosen.forward_cuts) + 1, len(chosen.backward_cuts) + 1
    title = [
        f"{charts.MODEL_TITLES.get(model, model)}, {charts.PLANNER_TITLES.get(planner, planner)}: "
        f"{done[planner].total_s:.3g} s, {saved:.1f} % saved",
        f"{_count(pulls, 'pull')}, {_count(pushes, 'push')} (cost model)",
    ]
    return alt.vconcat(
        gantt(timeline(costs, chosen)).properties(title=title),
        charts.iteration_parts(done),
    ).resolve_scale(color="independent")


def trace(**setting: Unpack[Setting]) -> Trace:
    """Return the timeline that `draw` shows."""
    costs = _costs(
        setting["model"],
        setting["batch_size"],
        setting["bandwidth_mbps"],
        setting["workers"],
        setting["overhead_ms"],
    )
    return timeline(costs, choose("planner", setting["planner"], PLANNERS)(costs))


def _count(number: int, noun: str) -> str:
    plural = "" if number == 1 else "es" if noun.endswith("sh") else "s"
    return f"{number} {noun}{plural}"


def _costs(
    model: str, batch_size: int, bandwidth_mbps: float, workers: int, overhead_ms: float
) -> LayerCosts:
    return variant(workers, bandwidth_mbps, overhead_ms).costs(model, batch_size)

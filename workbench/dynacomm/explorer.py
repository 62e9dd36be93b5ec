"""DynaComm's explorer: one iteration on the paper's testbed, with its parameters on sliders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.dynacomm.costs import LayerCosts, iteration, timeline
from workbench.dynacomm.paper import titles
from workbench.dynacomm.paper.testbed import BANDWIDTH_MBPS, WORKERS, Constants, variant
from workbench.dynacomm.planners import PLANNERS
from workbench.reproduction.parameters import PARAMETERS, Parameters
from workbench.runtime import Trace
from workbench.widgets import Shared, Slider

_FITTED = Constants.load()


@dataclass(frozen=True, kw_only=True)
class Setting(Parameters):
    """Parameters with their sliders."""

    model: str = "resnet152"
    planner: Annotated[str, PARAMETERS["planner"].among(PLANNERS.keys)] = "dynacomm"
    batch_size: Annotated[int, Slider(1, 128)] = 32
    bandwidth_mbps: Annotated[float, Slider(100, 40_000, scale="log", label="bandwidth")] = (
        BANDWIDTH_MBPS
    )
    workers: Annotated[int, Slider(1, 32)] = WORKERS
    overhead_ms: Annotated[float, Slider(0, 100, step=0.1, label="overhead")] = _FITTED.overhead_ms


SHARED = Shared(
    "DynaComm: one iteration of a worker at the edge",
    "The timeline shows one iteration under the chosen plan: parameters are pulled from servers in "
    "the cloud, gradients pushed back, and the plan cuts both where the iteration becomes "
    "shortest. The bars show the time under every planner.",
    {
        "model": ("vgg19", "googlenet", "inception_v4", "resnet152"),
        "planner": tuple(PLANNERS),
        "batch_size": (8, 16, 32, 64),
        "bandwidth_mbps": (500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 40_000.0),
        "workers": (1, 2, 4, 8, 16, 32),
    },
)


def draw(setting: Setting) -> dict[str, Any]:
    """One iteration under a plan as a timeline, and every planner's time below it."""
    model, planner, costs = setting.model, setting.planner, _costs(setting)
    plans = {name: plan(costs) for name, plan in PLANNERS.items()}
    done = {name: iteration(costs, plan).both for name, plan in plans.items()}
    chosen = plans[planner]
    saved = 100 * (1 - done[planner].total_s / done["sequential"].total_s)
    gantt = timeline(costs, chosen).gantt()
    gantt.title = [
        f"{titles.MODEL_TITLES.get(model, model)}, {titles.PLANNER_TITLES.get(planner, planner)}: "
        f"{done[planner].total_s:.3g} s, {saved:.1f} % saved",
        f"{_count(len(chosen.forward_cuts) + 1, 'pull', 'pulls')}, "
        f"{_count(len(chosen.backward_cuts) + 1, 'push', 'pushes')} (cost model)",
    ]
    rows = [
        {"planner": name, **{part: getattr(phase, part) for part in titles.PARTS}}
        for name, phase in done.items()
    ]
    longest_s = max(phase.total_s for phase in done.values())
    seconds = alt.X(
        "seconds:Q", title="seconds an iteration", scale=alt.Scale(domain=[0, longest_s])
    )
    bars = titles.bars_of_parts(pl.DataFrame(rows), seconds, "seconds").properties(height=110)
    return figures.stacked(gantt, bars)


def trace(setting: Setting) -> Trace:
    """Return the timeline that `draw` shows."""
    costs = _costs(setting)
    return timeline(costs, PLANNERS[setting.planner](costs))


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def _costs(setting: Setting) -> LayerCosts:
    testbed = variant(setting.workers, setting.bandwidth_mbps, setting.overhead_ms)
    return testbed.costs(setting.model, setting.batch_size)

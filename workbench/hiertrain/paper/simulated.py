"""Fig. 6: iterations simulated message by message, beside the cost model's; what sharing costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.costs.policy import Policy
from workbench.hiertrain.costs.problem import Problem
from workbench.hiertrain.paper import titles
from workbench.hiertrain.paper.testbed import (
    BATCH_SIZE,
    CORES_USED,
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    MODELS,
    PAPER,
    SETTING,
    variant,
)
from workbench.hiertrain.programs.network import SHARING as WAYS
from workbench.hiertrain.programs.network import cluster_of, programs_of
from workbench.reproduction.figure import Figure, at
from workbench.reproduction.sweep import grid, sweep, whole
from workbench.runtime import Run, simulate

SIMULATED = {
    **SETTING,
    "planner": pl.String,
    "sharing": pl.String,
    **dict.fromkeys(("predicted_s", "simulated_s", "difference_percent"), pl.Float64),
}


def simulated(
    models: Sequence[str],
    planners: Sequence[str],
    *,
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
) -> pl.DataFrame:
    """One iteration under each planner's policy, message by message, beside the cost model's.

    With ``sharing`` ``none`` every message has its pair's whole bandwidth, as the cost model
    assumes; with ``interfaces`` concurrent messages share the machines' interfaces (`cluster_of`).
    ``difference_percent`` is simulated over predicted, minus one.

    Deviation: simulated in place of the paper's machines, so that what differs is what the cost
    model leaves out of the policy's course, and not how fast a layer is.
    """
    points = grid(model=models, edge_cloud_mbps=EDGE_CLOUD_MBPS, planner=planners)
    shared = {
        "batch_size": batch_size,
        "device_edge_mbps": device_edge_mbps,
        "edge_cores": edge_cores,
        "devices": devices,
    }
    return sweep(
        _simulated, points, SIMULATED, title="Simulated iterations", shared=shared, with_steps=True
    )


def _simulated(
    *, model: str, batch_size: int, planner: str, steps: object, **testbed: float
) -> list[dict[str, object]]:
    problem = variant(**testbed).problem(model, batch_size)
    policy = PLANNERS[planner](problem)
    predicted_s = iteration(problem, policy).total_s
    simulated_s = {way: one_iteration(problem, policy, way).end_s for way in WAYS}
    return [
        {
            "sharing": way,
            "predicted_s": predicted_s,
            "simulated_s": way_s,
            "difference_percent": 100 * (way_s / predicted_s - 1),
        }
        for way, way_s in simulated_s.items()
    ]


def one_iteration(
    problem: Problem, policy: Policy, sharing: str = "none", *, trace: bool = False
) -> Run:
    """Simulate an iteration in which only bytes move."""
    programs = programs_of(problem, policy, 1, sharing=sharing)
    return whole(simulate(cluster_of(problem, sharing), programs, trace=trace))


SHARING_TITLES = {"none": "a link for every pair", "interfaces": "shared interfaces"}
_PANELS = {"none": "own links", "interfaces": "shared"}


def draw_against_model(frame: pl.DataFrame) -> alt.LayerChart:
    """HierTrain's iteration by the cost model (line) and simulated (points)."""
    base = alt.Chart(frame.with_columns(pl.col("sharing").replace_strict(SHARING_TITLES))).encode(
        x=titles.bandwidth()
    )
    line = base.mark_line(color=figures.INK, strokeWidth=1).encode(y="predicted_s:Q")
    order = list(SHARING_TITLES.values())
    points = base.mark_point(filled=True, size=45).encode(
        y=titles.seconds("simulated_s", scale=alt.Scale(zero=True)),
        color=parts.colour("sharing", order),
        shape=parts.shape("sharing", order),
    )
    farthest = [
        f"{SHARING_TITLES[sharing]}: up to {percent:+.1f} % off the model"
        for sharing, percent in frame.group_by("sharing", maintain_order=True)
        .agg(pl.col("difference_percent").sort_by(pl.col("difference_percent").abs()).last())
        .iter_rows()
    ]
    about = "line: cost model, points: simulated"
    lines = titles.title(frame, "HierTrain, by cost model and simulated", about, *farthest)
    return (line + points).properties(height=200, title=lines)


def draw_sharing(frame: pl.DataFrame) -> alt.FacetChart:
    """Simulated seconds of every planner, with links of their own and with shared ones."""
    panel = pl.format("{}: {}", titles.model_names(), pl.col("sharing").replace_strict(_PANELS))
    drawn = titles.titled(frame.with_columns(panel=panel))
    order = drawn["panel"].unique(maintain_order=True).to_list()
    lines = titles.over_bandwidth(
        drawn, "planner", titles.present(frame), "simulated_s"
    ).properties(height=150)
    heading = ["One iteration (simulated)", titles.setting(frame), overtaken(frame)]
    return parts.facets(lines, "panel", order, heading).resolve_scale(y="independent")


def overtaken(frame: pl.DataFrame) -> str:
    """Say where, with shared interfaces, another planner is faster than HierTrain."""
    shared = frame.filter(sharing="interfaces").pivot(
        on="planner", index=["model", "edge_cloud_mbps"], values="simulated_s"
    )
    others = [
        name for name in titles.PLANNER_TITLES if name in shared.columns and name != "hiertrain"
    ]
    slower = shared.filter(pl.min_horizontal(others) < pl.col("hiertrain") * (1 - 1e-9))
    return (
        f"with shared interfaces another planner is faster at {len(slower)} of {len(shared)} points"
    )


FIG6 = Figure(
    id="fig6",
    compute=partial(simulated, (MODELS["alexnet"],), ("hiertrain",)),
    chart=draw_against_model,
    at_paper=at(model=MODELS["alexnet"], **PAPER),
)

SHARING = Figure(
    id="sharing",
    compute=partial(simulated, tuple(MODELS.values()), tuple(PLANNERS)),
    chart=draw_sharing,
)

"""Fig. 6 as the paper has it: iterations of real processes, beside the cost model's.

Device, edge and cloud are processes of this machine, which send each other as many bytes as they
would, over links of the paper's bandwidths. A layer lasts as long as the cost model says: what is
tested are links, order and waiting, not how fast the paper's machines are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import altair as alt
import polars as pl

from workbench import figures
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.paper import titles
from workbench.hiertrain.paper.simulated import one_iteration
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
from workbench.hiertrain.programs.network import cluster_of, programs_of
from workbench.reproduction.claims import Answer, Cause
from workbench.reproduction.figure import Figure, at
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

MEASURED = {
    **SETTING,
    "repetition": pl.Int64,
    **dict.fromkeys(("predicted_s", "simulated_s", "measured_s"), pl.Float64),
    "difference_percent": pl.Float64,
    "disturbed": pl.Boolean,
}


def measured(
    repetitions: int,
    bandwidths_mbps: Sequence[float],
    *,
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
    folder: Path | None = None,
) -> pl.DataFrame:
    """An iteration under HierTrain's policy by processes, beside the cost model's and a simulation.

    ``difference_percent`` is measured over predicted, minus one; ``disturbed``, whether the machine
    was too busy for that (`MeasuredRun.disturbed`).
    """
    from workbench.runtime.measured import session

    shared = {
        "model": MODELS["alexnet"],
        "batch_size": batch_size,
        "device_edge_mbps": device_edge_mbps,
        "edge_cores": edge_cores,
        "devices": devices,
    }
    points = grid(repetition=range(repetitions), edge_cloud_mbps=bandwidths_mbps)
    with session(places=4):
        return sweep(
            _measured,
            points,
            MEASURED,
            title="Fig. 6",
            shared=shared,
            with_steps=True,
            folder=folder,
        )


def _measured(
    *, model: str, batch_size: int, repetition: int, steps: object, **testbed: float
) -> dict[str, object]:
    from workbench.runtime.measured import measure

    problem = variant(**testbed).problem(model, batch_size)
    policy = PLANNERS["hiertrain"](problem)
    predicted_s = iteration(problem, policy).total_s
    run = measure(cluster_of(problem), programs_of(problem, policy, 1))
    return {
        "predicted_s": predicted_s,
        "simulated_s": one_iteration(problem, policy).end_s,
        "measured_s": run.end_s,
        "difference_percent": 100 * (run.end_s / predicted_s - 1),
        "disturbed": run.disturbed,
    }


def draw_measured(frame: pl.DataFrame) -> alt.LayerChart:
    """HierTrain's iteration by the cost model (line), simulated (dashed), and measured (points)."""
    base, kept = alt.Chart(frame), frame.filter(~pl.col("disturbed"))
    x, y = titles.bandwidth(), titles.seconds("measured_s", scale=alt.Scale(zero=True))
    line = base.mark_line(color=figures.INK, strokeWidth=1).encode(x=x, y="predicted_s:Q")
    dashed = base.mark_line(strokeDash=[4, 3], strokeWidth=1.2).encode(x=x, y="simulated_s:Q")
    points = (
        alt.Chart(kept).mark_point(filled=True, size=40, color=figures.PALETTE[1]).encode(x=x, y=y)
    )
    apart = [
        f"{percent:+.1f} % from the {name}"
        for name, percent in (
            ("cost model", farthest(kept, "predicted_s")),
            ("simulation", farthest(kept, "simulated_s")),
        )
        if percent is not None
    ]
    lines = titles.title(
        frame,
        "HierTrain, by cost model and measured on one machine",
        "line: cost model; dashed: simulated; points: runs of processes",
        f"{len(kept)} of {len(frame)} runs, others were disturbed; "
        f"medians at most {' and '.join(apart)}",
    )
    return (line + dashed + points).properties(height=200, title=lines)


def farthest(frame: pl.DataFrame, column: str) -> float | None:
    """Percent by which medians of measured seconds are off a way's at most, over bandwidths."""
    medians = frame.group_by("edge_cloud_mbps").agg(pl.col("measured_s", column).median())
    off = 100 * (medians["measured_s"] / medians[column] - 1)
    return max(off.to_list(), key=abs, default=None)


def _validity(frame: pl.DataFrame) -> Answer | None:
    """Measured over predicted where they differ most, of the medians at each bandwidth."""
    kept = frame.filter(~pl.col("disturbed"))
    undisturbed = frame if kept.is_empty() else kept
    detail = (
        f"measured on one machine; {farthest(undisturbed, 'simulated_s'):+.1f} % from simulated"
    )
    if kept.is_empty():
        detail += ", but the machine was disturbed"
    return Answer(farthest(undisturbed, "predicted_s"), detail, timed=True)


FIG6_MEASURED = Figure(
    id="fig6_measured",
    compute=measured,
    chart=draw_measured,
    sizes={
        "repetitions": Scaled(smoke=1, default=1, paper=3),
        "bandwidths_mbps": Scaled(
            smoke=EDGE_CLOUD_MBPS[-2:], default=EDGE_CLOUD_MBPS, paper=EDGE_CLOUD_MBPS
        ),
    },
    answers={"hiertrain.fig6.validity": _validity},
    causes={
        "hiertrain.fig6.validity": Cause(
            "data",
            "the prototype cannot be had, nor do words such as 'highly match' give a number; the "
            "model adds up phases, each as long as its slowest worker, so whoever need not wait is "
            "faster",
        ),
    },
    at_paper=at(model=MODELS["alexnet"], **PAPER),
    recorded=True,
    timings=True,
)

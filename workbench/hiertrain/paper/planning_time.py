"""Table II: what HierTrain's solver takes on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.hiertrain.algorithms.hiertrain import hiertrain
from workbench.hiertrain.paper.testbed import BATCH_SIZE, MODELS, paper_testbed
from workbench.hiertrain.paper.titles import model_names
from workbench.profiles import profile_model
from workbench.reproduction.claims import Answer, paper_value
from workbench.reproduction.figure import Figure, at
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

TIMED = {
    MODELS.get(name, name): f"hiertrain.table2.{name}"
    for name in ("lenet5", "alexnet", "vgg16", "vgg19", "googlenet", "resnet34")
}
"""The zoo's models with the claims on them."""

TIMES = {
    "model": pl.String,
    "layers": pl.Int64,
    "batch_size": pl.Int64,
    **dict.fromkeys(("median_ms", "worst_ms", "paper_ms"), pl.Float64),
}


def planning_times(
    repeats: int,
    batch_size: int = BATCH_SIZE,
    models: Sequence[str] = tuple(TIMED),
    folder: Path | None = None,
) -> pl.DataFrame:
    """Time that HierTrain's solver takes on this machine, at the paper's middle bandwidth.

    ``paper_ms`` is the paper's on its machine; null for models that it does not name.
    """
    shared = {"batch_size": batch_size, "repeats": repeats}
    return sweep(
        _solving,
        grid(model=models),
        TIMES,
        title="Table II",
        shared=shared,
        folder=folder,
    )


def _solving(model: str, batch_size: int, repeats: int) -> dict[str, object]:
    testbed, times_ms = paper_testbed(), []
    for _repeat in range(repeats + 1):
        problem = testbed.problem(model, batch_size)  # each time, as it caches its sums
        before_s = time.perf_counter()
        hiertrain(problem)
        times_ms.append(1e3 * (time.perf_counter() - before_s))
    times_ms = times_ms[1:]  # the first call imports and warms
    return {
        "layers": len(profile_model(model)),
        "median_ms": statistics.median(times_ms),
        "worst_ms": max(times_ms),
        "paper_ms": 1e3 * paper_value(TIMED[model]) if model in TIMED else None,
    }


def draw_planning_times(frame: pl.DataFrame) -> alt.LayerChart:
    """Time to plan on this machine, and the paper's on its own (the grey tick)."""
    drawn = frame.with_columns(model=pl.format("{}, {} layers", model_names(), "layers"))
    base = alt.Chart(drawn).encode(y=alt.Y("model:N", sort=drawn["model"].to_list(), title=None))
    ours = base.mark_point(filled=True, size=55, color=figures.PALETTE[0]).encode(
        x=alt.X(**parts.log_axis("median_ms", "ms to plan"))
    )
    paper = base.mark_tick(color=parts.GREY, thickness=2).encode(
        x=alt.X("paper_ms:Q", scale=alt.Scale(type="log"))
    )
    title = ["Time to plan, this machine (grey: the paper's)", f"batch {frame['batch_size'][0]}"]
    return (ours + paper).properties(height=150, title=title)


def _seconds_to_plan(model: str, frame: pl.DataFrame) -> Answer | None:
    rows = frame.filter(model=model)
    if rows.is_empty():
        return None
    return Answer(rows["median_ms"].item() / 1e3, "our exact search", timed=True)


TABLE2 = Figure(
    id="table2",
    compute=planning_times,
    chart=draw_planning_times,
    sizes={"repeats": Scaled(smoke=1, default=5, paper=21)},
    answers={claim: partial(_seconds_to_plan, model) for model, claim in TIMED.items()},
    at_paper=at(batch_size=BATCH_SIZE),
    recorded=True,
    live=True,
    timings=True,
)

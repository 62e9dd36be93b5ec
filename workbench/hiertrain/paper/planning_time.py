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
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.paper.cost_model import model_names
from workbench.hiertrain.paper.testbed import BATCH_SIZE, MODELS, paper_testbed
from workbench.profiles import profile_model
from workbench.reproduction.claims import Answer, paper_value
from workbench.reproduction.figure import Figure, at
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep


def _zoo(*names: str) -> dict[str, str]:
    return {MODELS.get(name, name.replace("mobilenet", "mobilenet_v1")): name for name in names}


TIMED = _zoo("lenet5", "alexnet", "vgg16", "vgg19", "googlenet", "resnet34")
COUNTED = _zoo("alexnet", "vgg16", "googlenet", "mobilenet")
"""The zoo's models of Table II, and those whose layers Sec. V counts, as the paper names them."""

PLANNING_TIMES = {
    "model": pl.String,
    "layers": pl.Int64,
    "batch_size": pl.Int64,
    **dict.fromkeys(("median_ms", "worst_ms", "linear_programme_ms", "paper_ms"), pl.Float64),
}


def planning_times(
    repeats: int,
    literal: Sequence[str],
    batch_size: int = BATCH_SIZE,
    models: Sequence[str] = tuple(TIMED | COUNTED),
    folder: Path | None = None,
) -> pl.DataFrame:
    """Time that HierTrain's solver takes on this machine, at the paper's middle bandwidth.

    ``linear_programme_ms`` is that of the paper's own algorithm, once, for the models that are
    `literal`; ``paper_ms`` the paper's on its machine, null where it states none.
    """
    return sweep(
        _planning_time,
        grid(model=models),
        PLANNING_TIMES,
        title="Table II",
        shared={"batch_size": batch_size, "repeats": repeats, "literal": literal},
        folder=folder,
    )


def _planning_time(
    model: str, batch_size: int, repeats: int, literal: Sequence[str]
) -> dict[str, object]:
    def planning_ms(planner: str) -> float:
        problem = paper_testbed().problem(model, batch_size)  # each time, as it caches its sums
        before_s = time.perf_counter()
        PLANNERS[planner](problem)
        return 1e3 * (time.perf_counter() - before_s)

    _, *times_ms = (planning_ms("hiertrain") for _ in range(repeats + 1))  # the first one warms
    stated = f"hiertrain.table2.{TIMED[model]}" if model in TIMED else None
    return {
        "layers": len(profile_model(model)),
        "median_ms": statistics.median(times_ms),
        "worst_ms": max(times_ms),
        "linear_programme_ms": planning_ms("linear_programme") if model in literal else None,
        "paper_ms": 1e3 * paper_value(stated) if stated else None,
    }


def draw_planning_times(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw the time to plan on this machine, ours and by linear programmes, and the paper's."""
    drawn = frame.with_columns(model=pl.format("{}, {} layers", model_names(), "layers"))
    base = alt.Chart(drawn).encode(y=alt.Y("model:N", sort=drawn["model"].to_list(), title=None))
    ours = base.mark_point(filled=True, size=55, color=figures.PALETTE[0]).encode(
        x=alt.X(**parts.log_axis("median_ms", "ms to plan"))
    )
    literal = base.mark_point(shape="triangle", size=45, color=figures.PALETTE[1]).encode(
        x=alt.X("linear_programme_ms:Q", scale=alt.Scale(type="log"))
    )
    paper = parts.paper_rings(base, x=alt.X("paper_ms:Q", scale=alt.Scale(type="log")))
    about = "dots: our search; triangles: the paper's linear programmes; rings: the paper's times"
    heading = ["Time to plan, this machine", about, f"batch {frame['batch_size'][0]}"]
    return (ours + literal + paper).properties(height=170, title=heading)


def _seconds_to_plan(model: str, frame: pl.DataFrame) -> Answer | None:
    rows = frame.filter(model=model)
    if rows.is_empty():
        return None
    detail, literal_ms = "our exact search", rows["linear_programme_ms"].item()
    if literal_ms is not None:
        detail += f"; the paper's linear programmes take {literal_ms / 1e3:.2f} s here"
    return Answer(rows["median_ms"].item() / 1e3, detail, timed=True)


def _layers(model: str, frame: pl.DataFrame) -> Answer | None:
    rows = frame.filter(model=model)
    return None if rows.is_empty() else Answer(rows["layers"].item(), "the zoo's model")


TABLE2 = Figure(
    id="table2",
    compute=planning_times,
    chart=draw_planning_times,
    sizes={
        "repeats": Scaled(smoke=1, default=5, paper=21),
        "literal": Scaled(
            smoke=tuple(MODELS.values()), default=tuple(TIMED), paper=tuple(TIMED | COUNTED)
        ),
    },
    answers={
        **{
            f"hiertrain.table2.{name}": partial(_seconds_to_plan, model)
            for model, name in TIMED.items()
        },
        **{f"hiertrain.layers.{name}": partial(_layers, model) for model, name in COUNTED.items()},
    },
    at_paper=at(batch_size=BATCH_SIZE),
    recorded=True,
    live=True,
    timings=True,
)

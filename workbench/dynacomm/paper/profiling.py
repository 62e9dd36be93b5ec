"""Table II: what profiling costs on this machine, and what it is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from workbench.dynacomm.paper.testbed import MODELS
from workbench.profiles import measure_layer_times
from workbench.reproduction.claims import Answer, Cause
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import sweep
from workbench.runtime.progress import Steps

PROFILING_COSTS = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "layers": pl.Int64,
    **dict.fromkeys(("layers_s", "iteration_s", "ratio", "iteration_iqr_s"), pl.Float64),
    "within_15_percent": pl.Boolean,
    "loss_percent": pl.Float64,
}


def profiling_costs(
    batch_sizes: Mapping[str, int], repeats: int, folder: Path | None = None
) -> pl.DataFrame:
    """What profiling costs on this machine: layers timed one by one against whole iterations.

    The two take turns, so that what else the machine does hits both.

    A row per model: ``model, batch_size, layers, layers_s`` (an iteration with a clock between
    layers: the sum of all layers), ``iteration_s`` (one without, and its interquartile range
    ``iteration_iqr_s``), ``ratio`` of the two, whether that is ``within_15_percent`` of 1, and
    ``loss_percent`` of training speed.
    """
    points = [{"model": model, "batch_size": size} for model, size in batch_sizes.items()]
    shared = {"repeats": repeats}
    return sweep(
        _profiling,
        points,
        PROFILING_COSTS,
        title="Table II",
        shared=shared,
        with_steps=True,
        folder=folder,
    )


def _profiling(*, model: str, batch_size: int, repeats: int, steps: Steps) -> dict[str, object]:
    times = measure_layer_times(
        model,
        batch_size=batch_size,
        repeats=repeats,
        progress=lambda _, done, total: steps.within(f"{done} of {total} iterations"),
    )
    ratio = times.layers_over_iteration or math.nan
    return {
        "layers": len(times),
        "layers_s": times.forward_s + times.backward_s,
        "iteration_s": times.iteration_s,
        "ratio": ratio,
        "iteration_iqr_s": times.iteration_iqr_s,
        "within_15_percent": abs(ratio - 1) <= 0.15,
        "loss_percent": 100 * (1 - 1 / ratio),
    }


def _loss(frame: pl.DataFrame) -> Answer:
    rows = frame.filter(pl.col("model").is_in(MODELS)).sort("loss_percent")
    if len(rows) < len(MODELS):
        return Answer(not_run="profiles the paper's four models at default scale")
    worst = rows.row(-1, named=True)
    detail = f"{worst['model']}, on this machine"
    return Answer(worst["loss_percent"], detail, timed=True)


_PROFILED = ("vgg19", "resnet50", "googlenet", "inception_v4", "resnet152")

TABLE2 = Figure(
    id="table2",
    compute=profiling_costs,
    sizes={
        "batch_sizes": Scaled(
            smoke={"lenet5": 2},
            default=dict(zip(_PROFILED, (2, 4, 4, 1, 1), strict=True)),
            paper=dict(zip(_PROFILED, (8, 8, 32, 32, 32), strict=True)),
        ),
        "repeats": Scaled(smoke=3, default=3, paper=9),
    },
    answers={"dynacomm.table2.loss": _loss},
    causes={
        "dynacomm.table2.loss": Cause(
            "data",
            "MXNet's own profiler on the paper's processors cannot be had; here a clock stands "
            "between PyTorch's layers in every iteration",
        ),
    },
    recorded=True,
)

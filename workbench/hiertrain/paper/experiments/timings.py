"""Table II: what HierTrain's solver takes on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import polars as pl

from workbench.claims import load_claims
from workbench.experiments import grid, sweep
from workbench.hiertrain.algorithms.hiertrain import hiertrain
from workbench.hiertrain.paper.experiments import scales
from workbench.hiertrain.paper.testbed import BATCH_SIZE, FIG11_MBPS, MODELS, variant
from workbench.profiles import profile_model

TIMED = (MODELS["lenet5"], MODELS["alexnet"], "vgg16", "vgg19", "googlenet", "resnet34")

TABLE2 = {
    "model": pl.String,
    "layers": pl.Int64,
    "batch_size": pl.Int64,
    "median_ms": pl.Float64,
    "worst_ms": pl.Float64,
    "paper_ms": pl.Float64,
}


def table2(
    scale: str = "default", batch_size: int = BATCH_SIZE, models: Sequence[str] = TIMED
) -> pl.DataFrame:
    """Time that HierTrain's solver takes on this machine, at the paper's middle bandwidth.

    A row per model: ``model, layers, batch_size, median_ms`` over the repeats, ``worst_ms``, and
    ``paper_ms``, the paper's on its machine (null for models that it does not name).
    """
    shared = {"batch_size": batch_size, "repeats": scales.REPEATS.at(scale)}
    return sweep("Table II", _solving, grid(model=models), TABLE2, shared=shared, timed=True)


def _solving(model: str, batch_size: int, repeats: int, **_: object) -> dict[str, object]:
    testbed, times_ms = variant(edge_cloud_mbps=FIG11_MBPS), []
    for _repeat in range(repeats + 1):
        problem = testbed.problem(model, batch_size)  # anew: it caches its sums
        before_s = time.perf_counter()
        hiertrain(problem)
        times_ms.append(1e3 * (time.perf_counter() - before_s))
    times_ms = times_ms[1:]  # the first call imports and warms
    return {
        "layers": len(profile_model(model)),
        "median_ms": statistics.median(times_ms),
        "worst_ms": max(times_ms),
        "paper_ms": _paper_ms().get(model),
    }


def _paper_ms() -> dict[str, float]:
    """Milliseconds of Table II by the zoo's names."""
    claims = load_claims().filter(pl.col("id").str.starts_with("hiertrain.table2."))
    return {
        MODELS.get(name := claim.rpartition(".")[2], name): 1e3 * float(value)
        for claim, value in claims.select("id", "value").iter_rows()
    }

"""Figs. 5 to 9 and 11 by the cost model on the paper's testbed, and what explains its constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.costs.iteration import iteration
from workbench.dynacomm.paper import calibration
from workbench.dynacomm.paper.experiments import scales
from workbench.dynacomm.paper.testbed import (
    BANDWIDTH_MBPS,
    MODELS,
    WORKERS,
    Constants,
    stated_testbed,
    variant,
)
from workbench.experiments import grid, sweep

BANDWIDTHS_MBPS = tuple(range(1000, 10_001, 1000))


def fig5(
    batch_size: int = 32, bandwidth_mbps: float = BANDWIDTH_MBPS, workers: int = WORKERS
) -> pl.DataFrame:
    """Forward propagation by model and planner, as parts of the sequential time.

    A row per model and planner: the setting, ``computation_alone_s``, ``overlap_s``,
    ``communication_alone_s``, ``total_s``, ``normalised`` (over the sequential total) and
    ``reduced_percent``.
    """
    return _planned(MODELS, "forward", [batch_size], [bandwidth_mbps], workers)


def fig6(
    batch_size: int = 32, bandwidth_mbps: float = BANDWIDTH_MBPS, workers: int = WORKERS
) -> pl.DataFrame:
    """Backward propagation; columns as in `fig5`."""
    return _planned(MODELS, "backward", [batch_size], [bandwidth_mbps], workers)


def fig7(
    batch_size: int = 16, bandwidth_mbps: float = BANDWIDTH_MBPS, workers: int = WORKERS
) -> pl.DataFrame:
    """Forward propagation at half the batch; columns as in `fig5`."""
    return fig5(batch_size, bandwidth_mbps, workers)


def fig8(
    batch_size: int = 16, bandwidth_mbps: float = BANDWIDTH_MBPS, workers: int = WORKERS
) -> pl.DataFrame:
    """Backward propagation at half the batch; columns as in `fig5`."""
    return fig6(batch_size, bandwidth_mbps, workers)


def iterations(
    batch_sizes: Sequence[int] = (32, 16),
    bandwidth_mbps: float = BANDWIDTH_MBPS,
    workers: int = WORKERS,
) -> pl.DataFrame:
    """Whole iterations (Sec. V-B, text); columns as in `fig5`."""
    return _planned(MODELS, "iteration", batch_sizes, [bandwidth_mbps], workers)


def fig9a(
    scale: str = "default",
    model: str = "resnet152",
    bandwidth_mbps: float = BANDWIDTH_MBPS,
    workers: int = WORKERS,
) -> pl.DataFrame:
    """Reduction of the iteration time against batch size; columns as in `fig5`."""
    batch_sizes = scales.BATCH_SIZES.at(scale)
    return _planned([model], "iteration", batch_sizes, [bandwidth_mbps], workers)


def fig9b(
    bandwidths_mbps: Sequence[float] = BANDWIDTHS_MBPS,
    model: str = "resnet152",
    batch_size: int = 32,
    workers: int = WORKERS,
) -> pl.DataFrame:
    """Reduction of the iteration time against bandwidth; columns as in `fig5`."""
    return _planned([model], "iteration", [batch_size], bandwidths_mbps, workers)


PLANNED = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "bandwidth_mbps": None,
    "workers": pl.Int64,
    "direction": pl.String,
    "planner": pl.String,
    "computation_alone_s": pl.Float64,
    "overlap_s": pl.Float64,
    "communication_alone_s": pl.Float64,
    "total_s": pl.Float64,
    "normalised": pl.Float64,
    "reduced_percent": pl.Float64,
}


def _planned(
    models: Sequence[str],
    direction: str,
    batch_sizes: Sequence[int],
    bandwidths_mbps: Sequence[float],
    workers: int,
) -> pl.DataFrame:
    return sweep(
        "Planned",
        _by_planner,
        grid(bandwidth_mbps=bandwidths_mbps, batch_size=batch_sizes, model=models),
        PLANNED,
        shared={"direction": direction, "workers": workers},
    )


def _by_planner(
    *, bandwidth_mbps: float, batch_size: int, model: str, direction: str, workers: int, **_: object
) -> list[dict[str, object]]:
    costs = variant(workers, bandwidth_mbps).costs(model, batch_size)
    phases = {
        name: getattr(iteration(costs, planner(costs)), direction)
        for name, planner in PLANNERS.items()
    }
    sequential_s = phases["sequential"].total_s
    return [
        {
            "planner": planner,
            "computation_alone_s": phase.computation_alone_s,
            "overlap_s": phase.overlap_s,
            "communication_alone_s": phase.communication_alone_s,
            "total_s": phase.total_s,
            "normalised": phase.total_s / sequential_s,
            "reduced_percent": 100 * (1 - phase.total_s / sequential_s),
        }
        for planner, phase in phases.items()
    ]


SPEEDUPS = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "bandwidth_mbps": None,
    "workers": pl.Int64,
    "planner": pl.String,
    "speedup": pl.Float64,
}


def fig11(
    workers: Iterable[int] = range(1, 9),
    model: str = "resnet152",
    batch_size: int = 32,
    bandwidth_mbps: float = BANDWIDTH_MBPS,
) -> pl.DataFrame:
    """Training speed of all workers over that of one without a network, against their number.

    Columns ``model, batch_size, bandwidth_mbps, workers, planner, speedup``.
    """
    shared = {"model": model, "batch_size": batch_size, "bandwidth_mbps": bandwidth_mbps}
    return sweep("Figure 11", _speedups, grid(workers=workers), SPEEDUPS, shared=shared)


def _speedups(
    *, workers: int, model: str, batch_size: int, bandwidth_mbps: float, **_: object
) -> list[dict[str, object]]:
    testbed = variant(workers, bandwidth_mbps)
    costs = testbed.costs(model, batch_size)
    return [
        {"planner": name, "speedup": testbed.speedup(model, batch_size, planner(costs))}
        for name, planner in PLANNERS.items()
    ]


def explanations() -> pl.DataFrame:
    """How far each explanation of the open constants is off, claim by claim.

    A row per explanation and claim: ``explanation, role`` (fitted on batch size 32, predicted at
    16), ``claim, error_points`` (ours minus the paper's).
    """
    rows = [
        (name, role, claim, error)
        for name in calibration.EXPLANATIONS
        for role, batch_size in (("fitted", 32), ("predicted", 16))
        for claim, error in calibration.errors(
            stated_testbed(Constants.load(name)), batch_size
        ).items()
    ]
    return pl.DataFrame(rows, schema=["explanation", "role", "claim", "error_points"], orient="row")


def explanation_errors(frame: pl.DataFrame) -> pl.DataFrame:
    """Mean absolute error in points of each explanation, fitted and predicted apart."""
    return frame.group_by("explanation", "role", maintain_order=True).agg(
        claims=pl.len(), mean_absolute_points=pl.col("error_points").abs().mean()
    )

"""Fits the constants that the paper leaves open and writes ``data/calibration/dynacomm.toml``.

Four constants are fitted on what the paper states for batch size 32 (Figs. 5 and 6, Sec. V-B), by
least squares in percentage points. The fifth, which those numbers do not depend on, follows from
one number of Fig. 11. All that the paper states for batch size 16, and the rest, is predicted.
Rejected explanations are fitted and kept beside the one in use. ``python -m
workbench.dynacomm.paper.calibration`` repeats it all, in a few minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial

import numpy as np
import polars as pl

from workbench.clusters.testbeds import calibration_toml, load_calibration, write_calibration
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.costs.iteration import FloatArray, iteration
from workbench.dynacomm.paper.testbed import EXPLANATION, Constants, Testbed, stated_testbed
from workbench.profiles import profile_model
from workbench.reproduction.claims import load_claims, paper_value
from workbench.utils.checks import choose

# Search ranges: a decade or so around what is plausible.
_COMMON = {
    "link_efficiency": (0.05, 1.0),
    "overhead_ms": (1.0, 50.0),
    "backward_over_forward": (1.0, 3.0),
}
EXPLANATIONS: dict[str, dict[str, tuple[float, float]]] = {
    # Tensors below MXNet's split bound lie on one server and get only part of the bandwidth.
    "key_granularity": _COMMON | {"whole_share": (0.1, 1.0)},
    # Every tensor costs a fixed time on top of its bytes.
    "tensor_overhead": _COMMON | {"tensor_ms": (0.0, 10.0)},
    # Nothing but bytes, bandwidth and the overhead of a transmission.
    "bandwidth_only": _COMMON,
}
"""What may explain the time that the bytes do not: constants to fit, with their ranges."""

SEED = 1
SPEEDUP_CLAIM = "dynacomm.fig11.dynacomm"

_DIRECTIONS = {"fwd": "forward", "bwd": "backward", "iter": "iteration"}


def reductions(batch_size: int) -> pl.DataFrame:
    """Claims on what planning saves at a batch size, by part.

    Columns ``id, direction`` (an attribute of `Iteration`), ``model, planner, percent``.
    """
    pattern = rf"^dynacomm\.(fwd|bwd|iter){batch_size}\.(\w+)\.(\w+)$"
    part = partial(pl.col("id").str.extract, pattern)
    return (
        load_claims()
        .filter(pl.col("id").str.contains(pattern))
        .select(
            "id",
            direction=part(1).replace_strict(_DIRECTIONS),
            model=part(2),
            planner=part(3),
            percent=pl.col("value").cast(pl.Float64),
        )
    )


def errors(testbed: Testbed, batch_size: int) -> dict[str, float]:
    """Ours minus the paper's, in percentage points, by claim on that batch size."""
    costs = cache(partial(testbed.costs, batch_size=batch_size))
    done = cache(lambda model, planner: iteration(costs(model), PLANNERS[planner](costs(model))))
    percents = {}
    for claim, direction, model, planner, percent in reductions(batch_size).iter_rows():
        ours, theirs = (getattr(done(model, name), direction) for name in (planner, "sequential"))
        percents[claim] = 100 * (1 - ours.total_s / theirs.total_s) - percent
    return percents


def fit(explanation: str = EXPLANATION) -> Constants:
    """Constants with the least squared error on the claims for batch size 32; minutes."""
    from scipy.optimize import differential_evolution

    ranges = choose("explanation", explanation, EXPLANATIONS)

    def squared_error(values: FloatArray) -> float:
        constants = Constants(**dict(zip(ranges, values.tolist(), strict=True)))
        return float(np.mean(np.square(list(errors(stated_testbed(constants), 32).values()))))

    best = differential_evolution(
        squared_error, list(ranges.values()), seed=SEED, popsize=12, tol=1e-6, polish=False
    )
    # Three digits: the claims do not resolve more.
    constants = Constants(**{n: _rounded(v) for n, v in zip(ranges, best.x, strict=True)})
    return replace(constants, aggregation_mbps=_aggregation_mbps(constants))


def _aggregation_mbps(constants: Constants) -> float:
    """Rate at which the speed-up of eight workers with DynaComm's plan is that of Fig. 11."""
    testbed, model, batch_size = stated_testbed(constants), "resnet152", 32
    costs = testbed.costs(model, batch_size)
    iteration_s = iteration(costs, PLANNERS["dynacomm"](costs)).total_s
    alone_s = testbed.workers * batch_size / testbed.speed(model)
    waiting_s = alone_s / paper_value(SPEEDUP_CLAIM) - iteration_s
    summed_bits = testbed.workers * profile_model(model).param_bytes * 8 / testbed.servers
    return _rounded(summed_bits / waiting_s / 1e6)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def mean_absolute(points: Mapping[str, float]) -> float:
    """Mean absolute error of several claims, in percentage points."""
    return float(np.mean(np.abs(list(points.values()))))


def to_toml(fitted: Mapping[str, Constants]) -> str:
    """Constants by explanation, what they were fitted on, and how far off they leave each claim."""
    shipped = errors(stated_testbed(fitted[EXPLANATION]), 32)
    tables: dict[str, dict[str, object]] = {}
    for name, constants in fitted.items():
        testbed = stated_testbed(constants)
        tables[f"constants.{name}"] = {
            constant: getattr(constants, constant)
            for constant in (*EXPLANATIONS[name], "aggregation_mbps")
        }
        tables[f"mean_absolute_error.{name}  # percentage points"] = {
            f"{kind}  # batch size {size}": f"{mean_absolute(errors(testbed, size)):.2f}"
            for kind, size in (("fitted", 32), ("predicted", 16))
        }
    tables["residuals  # of the explanation in use: ours minus the paper's, points"] = {
        claim: f"{error:.2f}" for claim, error in shipped.items()
    }
    return calibration_toml(
        "dynacomm",
        _ABOUT,
        explanation=EXPLANATION,
        method="least squares on the claims for batch 32; aggregation_mbps from one of Fig. 11",
        fitted_on=[*shipped, SPEEDUP_CLAIM],
        tables=tables,
    )


_ABOUT = """\
Constants of DynaComm's testbed that the paper leaves open, the same for every model,
batch size, bandwidth and number of workers. Their meaning: `Constants` in the code."""


def main() -> None:
    """Fit every explanation, write the file and say how well each does."""
    fitted = {}
    for name in EXPLANATIONS:
        print(f"fitting {name} …", flush=True)
        fitted[name] = fit(name)
    write_calibration("dynacomm", to_toml(fitted))
    for name, error in load_calibration("dynacomm")["mean_absolute_error"].items():
        print(f"{name}: {error['fitted']} points fitted, {error['predicted']} predicted")


if __name__ == "__main__":
    main()

"""Tables I and II and Fig. 12: what planning and profiling take on this machine."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import polars as pl

from workbench.dynacomm.algorithms import bellman
from workbench.dynacomm.algorithms.dynacomm import optimal_cuts
from workbench.dynacomm.algorithms.ibatch import backward_cuts as ibatch_backward_cuts
from workbench.dynacomm.algorithms.ibatch import forward_cuts as ibatch_forward_cuts
from workbench.dynacomm.costs.iteration import Direction, LayerCosts
from workbench.dynacomm.paper.experiments import scales
from workbench.dynacomm.paper.testbed import MODELS, paper_testbed
from workbench.experiments import grid, sweep
from workbench.profiles import measure_layer_times
from workbench.runtime.progress import Steps

TABLE1 = {
    "model": pl.String,
    "planner": pl.String,
    "direction": pl.String,
    "mean_ms": pl.Float64,
    "deviation_ms": pl.Float64,
    "window_ms": pl.Float64,
}


def table1(scale: str = "default", batch_size: int = 32) -> pl.DataFrame:
    """Time to plan on this machine, against the window in which it can be hidden.

    A row per model, planner (``dynacomm``, ``ibatch``) and direction: ``mean_ms``, ``deviation_ms``
    over the repeats, and ``window_ms``, the overhead and transfer of layer 1 by the cost model
    (pushed last and pulled first).
    """
    points = grid(model=MODELS, planner=("dynacomm", "ibatch"), direction=DIRECTIONS)
    shared = {"batch_size": batch_size, "repeats": scales.REPEATS.at(scale)}
    return sweep("Table I", _planning, points, TABLE1, shared=shared, timed=True)


def _planning(
    *, model: str, planner: str, direction: str, batch_size: int, repeats: int, **_: object
) -> dict[str, float]:
    costs = paper_testbed().costs(model, batch_size)
    times_ms = [1e3 * seconds for seconds in timed(planner, costs, direction, repeats)]
    return {
        "mean_ms": statistics.mean(times_ms),
        "deviation_ms": statistics.stdev(times_ms),
        "window_ms": 1e3 * (costs.overhead_s + float(costs.push_s[0])),
    }


FIG12 = {
    "direction": pl.String,
    "solver": pl.String,
    "layers": pl.Int64,
    "median_ms": pl.Float64,
}


def fig12(scale: str = "default", seed: int = 1) -> pl.DataFrame:
    """Time to plan against the number of layers, on random costs, on this machine.

    A row per direction, solver and number of layers: ``median_ms`` over the repeats.
    ``paper_programme`` is the paper's dynamic programme in NumPy, ``dynacomm`` the solver that is
    shipped, of the same optimum.
    """
    sizes = scales.TIMED_LAYERS.at(scale)
    points = grid(layers=sizes, direction=DIRECTIONS, solver=SOLVERS)
    shared = {"sizes": sizes, "seed": seed, "repeats": scales.REPEATS.at(scale)}
    return sweep("Figure 12", _solving, points, FIG12, shared=shared, timed=True)


def _solving(
    *,
    layers: int,
    direction: str,
    solver: str,
    sizes: tuple[int, ...],
    seed: int,
    repeats: int,
    **_: object,
) -> dict[str, float]:
    costs = random_costs(sizes, seed)[layers]
    return {"median_ms": 1e3 * statistics.median(timed(solver, costs, direction, repeats))}


@lru_cache(maxsize=1)
def random_costs(sizes: Sequence[int], seed: int) -> dict[int, LayerCosts]:
    """Costs by the number of layers, log-normal around a second, with an overhead of one."""
    generator = np.random.default_rng(seed)
    found = {}
    for layers in sizes:
        pull_s, forward_s, backward_s, push_s = generator.lognormal(size=(4, layers))
        found[layers] = LayerCosts(pull_s, forward_s, backward_s, push_s, overhead_s=1.0)
    return found


def slopes(frame: pl.DataFrame, from_layers: int = 200) -> pl.DataFrame:
    """Log-log slope of `fig12`'s times, over the sizes at which the leading term rules.

    Columns ``direction, solver, layers`` (the most), ``exponent``; fitted from `from_layers` on, or
    on the two largest sizes if fewer are that large.
    """
    rows = []
    for (direction, solver), part in frame.group_by("direction", "solver", maintain_order=True):
        large = part.filter(pl.col("layers") >= from_layers)
        large = large if len(large) >= 2 else part.sort("layers").tail(2)
        x, y = large["layers"].log().to_numpy(), large["median_ms"].log().to_numpy()
        rows.append((direction, solver, max(part["layers"]), float(np.polyfit(x, y, 1)[0])))
    schema = ["direction", "solver", "layers", "exponent"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def timed(solver: str, costs: LayerCosts, direction: str, repeats: int) -> list[float]:
    """Seconds of each repeat, after one that does not count."""
    seconds = []
    for _ in range(repeats + 1):
        before_s = time.perf_counter()
        SOLVERS[solver][direction](costs)
        seconds.append(time.perf_counter() - before_s)
    return seconds[1:]


def _forward(costs: LayerCosts) -> Direction:
    return Direction(costs.pull_s, costs.forward_s, costs.overhead_s)


def _backward(costs: LayerCosts) -> Direction:
    return Direction(costs.push_s, costs.backward_s, costs.overhead_s)


DIRECTIONS = ("forward", "backward")

# From the costs to the cuts, running sums included, as Table I times it.
SOLVERS: dict[str, dict[str, Callable[[LayerCosts], object]]] = {
    "paper_programme": {
        "forward": bellman.forward_cuts,
        "backward": bellman.backward_cuts,
    },
    "dynacomm": {
        "forward": lambda costs: optimal_cuts(_forward(costs)),
        "backward": lambda costs: optimal_cuts(_backward(costs)),
    },
    "ibatch": {
        "forward": lambda costs: ibatch_forward_cuts(_forward(costs)),
        "backward": lambda costs: ibatch_backward_cuts(_backward(costs)),
    },
}

TABLE2 = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "layers": pl.Int64,
    "layers_s": pl.Float64,
    "iteration_s": pl.Float64,
    "ratio": pl.Float64,
    "iteration_iqr_s": pl.Float64,
    "within_15_percent": pl.Boolean,
    "loss_percent": pl.Float64,
}


def table2(scale: str = "default") -> pl.DataFrame:
    """What profiling costs on this machine: layers timed one by one against whole iterations.

    The two take turns, so that what else the machine does hits both.

    A row per model: ``model, batch_size, layers, layers_s`` (an iteration with a clock between
    layers: the sum of all layers), ``iteration_s`` (one without, and its interquartile range
    ``iteration_iqr_s``), ``ratio`` of the two, whether that is ``within_15_percent`` of 1, and
    ``loss_percent`` of training speed.
    """
    models = scales.PROFILED.at(scale).items()
    points = [{"model": model, "batch_size": batch_size} for model, batch_size in models]
    shared = {"repeats": scales.PROFILED_REPEATS.at(scale)}
    return sweep("Table II", _profiling, points, TABLE2, shared=shared, timed=True)


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

"""Table I and Fig. 12: what planning takes on this machine, by the paper's algorithms and ours."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

from workbench.dynacomm.costs import Direction, LayerCosts
from workbench.dynacomm.paper.testbed import MODELS, paper_testbed
from workbench.dynacomm.planners import (
    bellman_backward_cuts,
    bellman_forward_cuts,
    ibatch_backward_cuts,
    ibatch_forward_cuts,
    optimal_cuts,
)
from workbench.figures import parts
from workbench.reproduction.claims import Answer, Cause, paper_values
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

DIRECTIONS = ("forward", "backward")

SOLVERS: dict[str, dict[str, Callable[[LayerCosts], object]]] = {
    "paper_programme": {"forward": bellman_forward_cuts, "backward": bellman_backward_cuts},
    "dynacomm": {
        "forward": lambda costs: optimal_cuts(pulls(costs)),
        "backward": lambda costs: optimal_cuts(pushes(costs)),
    },
    "ibatch": {
        "forward": lambda costs: ibatch_forward_cuts(pulls(costs)),
        "backward": lambda costs: ibatch_backward_cuts(pushes(costs)),
    },
}
"""Algorithms by direction, from the costs to the cuts: with running sums, as Table I times it."""
SOLVER_TITLES = {
    "paper_programme": "the paper's programme",
    "dynacomm": "ours, same optimum",
    "ibatch": "iBatch",
}


def pulls(costs: LayerCosts) -> Direction:
    """The forward direction, summed again."""
    return Direction(costs.pull_s, costs.forward_s, costs.overhead_s)


def pushes(costs: LayerCosts) -> Direction:
    """The backward direction, summed again."""
    return Direction(costs.push_s, costs.backward_s, costs.overhead_s)


PLANNING_TIMES = {
    **dict.fromkeys(("model", "planner", "direction"), pl.String),
    **dict.fromkeys(("mean_ms", "deviation_ms", "window_ms"), pl.Float64),
}


def planning_times(repeats: int, batch_size: int = 32, folder: Path | None = None) -> pl.DataFrame:
    """Time to plan on this machine, against the window in which it can be hidden.

    A row per model, planner (of `SOLVERS`) and direction: ``mean_ms``, ``deviation_ms`` over
    the repeats, and ``window_ms`` by the cost model, the overhead and transfer of layer 1: pushed
    last, while forward is planned, and pulled first, while backward is.
    """
    points = grid(model=MODELS, planner=SOLVERS, direction=DIRECTIONS)
    shared = {"batch_size": batch_size, "repeats": repeats}
    return sweep(_planning, points, PLANNING_TIMES, title="Table I", shared=shared, folder=folder)


def _planning(
    *, model: str, planner: str, direction: str, batch_size: int, repeats: int
) -> dict[str, float]:
    costs = paper_testbed().costs(model, batch_size)
    times_ms = [1e3 * seconds for seconds in timed(planner, costs, direction, repeats)]
    transfer_s = costs.push_s[0] if direction == "forward" else costs.pull_s[0]
    return {
        "mean_ms": statistics.mean(times_ms),
        "deviation_ms": statistics.stdev(times_ms),
        "window_ms": 1e3 * (costs.overhead_s + float(transfer_s)),
    }


TIMES_BY_LAYERS = {
    "direction": pl.String,
    "solver": pl.String,
    "layers": pl.Int64,
    "median_ms": pl.Float64,
}


def times_by_layers(
    sizes: tuple[int, ...], repeats: int, seed: int = 1, folder: Path | None = None
) -> pl.DataFrame:
    """Time to plan against the number of layers, on random costs, on this machine.

    A row per direction, solver (of `SOLVERS`) and number of layers: ``median_ms`` over the
    repeats. ``paper_programme`` is `bellman`, ``dynacomm`` the solver that plans.
    """
    points = grid(layers=sizes, direction=DIRECTIONS, solver=SOLVERS)
    shared = {"sizes": sizes, "seed": seed, "repeats": repeats}
    return sweep(_solving, points, TIMES_BY_LAYERS, title="Figure 12", shared=shared, folder=folder)


def _solving(
    *, layers: int, direction: str, solver: str, sizes: tuple[int, ...], seed: int, repeats: int
) -> dict[str, float]:
    costs = random_costs(sizes, seed)[layers]
    return {"median_ms": 1e3 * statistics.median(timed(solver, costs, direction, repeats))}


@lru_cache(maxsize=1)
def random_costs(sizes: Sequence[int], seed: int) -> dict[int, LayerCosts]:
    """Costs by the number of layers, log-normal around a second, with an overhead of one."""
    generator = np.random.default_rng(seed)
    costs = {}
    for layers in sizes:
        pull_s, forward_s, backward_s, push_s = generator.lognormal(size=(4, layers))
        costs[layers] = LayerCosts(pull_s, forward_s, backward_s, push_s, overhead_s=1.0)
    return costs


def slopes(frame: pl.DataFrame, from_layers: int = 200) -> pl.DataFrame:
    """Log-log slope of `times_by_layers`'s times, over the sizes at which the leading term rules.

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


def draw_by_layers(frame: pl.DataFrame) -> alt.FacetChart:
    """Time to plan against the number of layers, both axes logarithmic."""
    stated = pl.concat(
        paper_values(f"dynacomm.fig12.crossing_{short}").with_columns(direction=pl.lit(direction))
        for direction, short in _SHORT.items()
    )
    drawn = frame.with_columns(pl.col("solver").replace_strict(SOLVER_TITLES)).join(
        stated, on="direction", how="left"
    )
    x = alt.X(
        "layers:Q",
        scale=alt.Scale(type="log", nice=False, padding=8),
        title="layers",
        axis=alt.Axis(values=frame["layers"].unique().sort().to_list(), format="d"),
    )
    y = alt.Y(**parts.log_axis("median_ms", "ms to plan, this machine"))
    lines = parts.lines(drawn, x, y, "solver", list(SOLVER_TITLES.values()), height=200)
    rings = parts.paper_rings(alt.Chart(drawn), x="max(paper):Q", y=alt.value("height"))
    return (lines + rings).facet(
        column=alt.Column("direction:N", sort=DIRECTIONS, title=None),
        title=[
            "Time to plan random chains",
            *parts.rings_title(drawn, "where iBatch gets faster, by the paper"),
        ],
        spacing=parts.APART_PX,
    )


# Layers from which the cubic term of the programme shows; below, calls cost more than sums.
_CUBIC_FROM = 400


def _exponent(frame: pl.DataFrame) -> Answer:
    largest = max(frame["layers"].to_list())
    if largest < _CUBIC_FROM:
        return Answer(not_run=f"times {_CUBIC_FROM} layers and more at default scale")
    exponents = slopes(frame).filter(solver="paper_programme")["exponent"].to_list()
    detail = f"the paper's programme in NumPy, up to {largest} layers, mean of both directions"
    return Answer(sum(exponents) / len(exponents), detail, timed=True)


def _crossing(direction: str, frame: pl.DataFrame) -> Answer:
    """The most layers that the paper's programme plans faster than iBatch; 0 if none."""
    times = frame.filter(direction=direction).pivot("solver", index="layers", values="median_ms")
    faster = times.filter(pl.col("paper_programme") < pl.col("ibatch"))["layers"].to_list()
    detail = f"of {', '.join(map(str, times['layers']))} layers; our iBatch bisects"
    return Answer(max(faster, default=0), detail, timed=True)


def _solver(model: str, planner: str, direction: str, frame: pl.DataFrame) -> Answer | None:
    rows = frame.filter(model=model, planner=planner, direction=direction)
    detail = "our exact search" if planner == "dynacomm" else "the paper's greedies, bisecting"
    return Answer(rows["mean_ms"].item(), detail, timed=True) if len(rows) else None


def _window(model: str, direction: str, frame: pl.DataFrame) -> Answer | None:
    rows = frame.filter(model=model, direction=direction, planner="dynacomm")
    if rows.is_empty():
        return None
    overhead_ms = paper_testbed().constants.overhead_ms
    detail = f"cost model, {overhead_ms:.1f} ms of it the fitted overhead"
    return Answer(rows["window_ms"].item(), detail)


def _in_window(frame: pl.DataFrame) -> Answer:
    ours = frame.filter(pl.col("planner") != "paper_programme")
    late = ours.filter(pl.col("mean_ms") >= pl.col("window_ms"))
    slowest = ours.sort("mean_ms")[-1].row(0, named=True)
    detail = f"at most {slowest['mean_ms']:.2f} ms of {slowest['window_ms']:.1f} ms"
    return Answer(late.is_empty(), detail, timed=True)


def _ibatch_slower_for(models: Sequence[str], direction: str, frame: pl.DataFrame) -> Answer:
    """Whether iBatch plans slower than the paper's programme for these models, and for no other."""
    of_direction = frame.filter(direction=direction)
    times = of_direction.pivot("planner", index="model", values="mean_ms")
    slower = times.filter(pl.col("ibatch") > pl.col("paper_programme"))["model"].to_list()
    detail = f"iBatch is slower for {len(slower)} of {len(times)} models; ours bisects"
    return Answer(set(slower) == set(models), detail, timed=True)


_NOT_PUBLISHED = (
    "neither of the paper's two programs is published, and which is faster is up to how they are "
    "compiled. With L layers iBatch tries L (L - 1) pairs of cuts, and the programme takes "
    "L^3 / 3 steps. Both are a few sums and comparisons, so in one language iBatch is faster from "
    "a few layers on; ours bisects. "
)
_FORWARD = Cause(
    "data",
    f"{_NOT_PUBLISHED}By the paper's times of ResNet-152, 12.65 and 11.59 ms, the two of its own "
    "cross at 166 layers",
)
_BACKWARD = Cause(
    "data",
    f"{_NOT_PUBLISHED}The two of its own cross between the 22 layers of GoogLeNet and the 76 of "
    "Inception-v4, but by its times of ResNet-152, 8.92 and 11.56 ms, at 116",
)

_REPEATS = Scaled(smoke=2, default=5, paper=5)
_SHORT = {"forward": "fwd", "backward": "bwd"}

TABLE1 = Figure(
    id="table1",
    compute=planning_times,
    sizes={"repeats": _REPEATS},
    answers={
        **{
            f"dynacomm.table1.{model}.{planner}_{_SHORT[direction]}": partial(
                _solver, model, planner, direction
            )
            for model in MODELS
            for planner in ("dynacomm", "ibatch")
            for direction in DIRECTIONS
        },
        **{
            f"dynacomm.table1.{model}.window_{_SHORT[direction]}": partial(
                _window, model, direction
            )
            for model in MODELS
            for direction in DIRECTIONS
        },
        "dynacomm.table1.window": _in_window,
        "dynacomm.order.table1_fwd": partial(_ibatch_slower_for, MODELS, "forward"),
        "dynacomm.order.table1_bwd": partial(
            _ibatch_slower_for, ("vgg19", "googlenet"), "backward"
        ),
    },
    causes={
        "dynacomm.order.table1_fwd": _FORWARD,
        "dynacomm.order.table1_bwd": _BACKWARD,
    },
    recorded=True,
    live=True,
    timings=True,
)

FIG12 = Figure(
    id="fig12",
    compute=times_by_layers,
    chart=draw_by_layers,
    sizes={
        "sizes": Scaled(
            smoke=(20, 40, 80),
            default=(25, 50, 100, 200, 400, 800),
            paper=(25, 50, 100, 200, 400, 800, 1200),
        ),
        "repeats": _REPEATS,
    },
    answers={
        "dynacomm.fig12.exponent": _exponent,
        "dynacomm.fig12.crossing_fwd": partial(_crossing, "forward"),
        "dynacomm.fig12.crossing_bwd": partial(_crossing, "backward"),
    },
    causes={
        "dynacomm.fig12.crossing_fwd": _FORWARD,
        "dynacomm.fig12.crossing_bwd": _BACKWARD,
    },
    recorded=True,
    live=True,
    timings=True,
)

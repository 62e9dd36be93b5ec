"""Table I and Fig. 12: what planning takes on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

from workbench.dynacomm.algorithms import bellman
from workbench.dynacomm.algorithms.dynacomm import optimal_cuts
from workbench.dynacomm.algorithms.ibatch import backward_cuts, forward_cuts
from workbench.dynacomm.costs.iteration import Direction, LayerCosts
from workbench.dynacomm.paper.testbed import MODELS, paper_testbed
from workbench.dynacomm.paper.titles import MODEL_TITLES, PLANNER_TITLES
from workbench.figures import parts
from workbench.reproduction.claims import Answer
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

DIRECTIONS = ("forward", "backward")

SOLVER_TITLES = {
    "paper_programme": "the paper's programme",
    "dynacomm": "ours, same optimum",
    "ibatch": "iBatch",
}

PLANNING_TIMES = {
    **dict.fromkeys(("model", "planner", "direction"), pl.String),
    **dict.fromkeys(("mean_ms", "deviation_ms", "window_ms"), pl.Float64),
}


def planning_times(repeats: int, batch_size: int = 32, folder: Path | None = None) -> pl.DataFrame:
    """Time to plan on this machine, against the window in which it can be hidden.

    A row per model, planner (``dynacomm``, ``ibatch``) and direction: ``mean_ms``, ``deviation_ms``
    over the repeats, and ``window_ms``, the overhead and transfer of layer 1 by the cost model
    (pushed last and pulled first).
    """
    points = grid(model=MODELS, planner=("dynacomm", "ibatch"), direction=DIRECTIONS)
    shared = {"batch_size": batch_size, "repeats": repeats}
    return sweep(_planning, points, PLANNING_TIMES, title="Table I", shared=shared, folder=folder)


def _planning(
    *, model: str, planner: str, direction: str, batch_size: int, repeats: int
) -> dict[str, float]:
    costs = paper_testbed().costs(model, batch_size)
    times_ms = [1e3 * seconds for seconds in timed(planner, costs, direction, repeats)]
    return {
        "mean_ms": statistics.mean(times_ms),
        "deviation_ms": statistics.stdev(times_ms),
        "window_ms": 1e3 * (costs.overhead_s + float(costs.push_s[0])),
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

    A row per direction, solver and number of layers: ``median_ms`` over the repeats.
    ``paper_programme`` is the paper's dynamic programme in NumPy, ``dynacomm`` the solver that is
    shipped, of the same optimum.
    """
    points = grid(layers=sizes, direction=DIRECTIONS, solver=SOLVER_TITLES)
    shared = {"sizes": sizes, "seed": seed, "repeats": repeats}
    return sweep(
        _solving,
        points,
        TIMES_BY_LAYERS,
        title="Figure 12",
        shared=shared,
        folder=folder,
    )


def _solving(
    *,
    layers: int,
    direction: str,
    solver: str,
    sizes: tuple[int, ...],
    seed: int,
    repeats: int,
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
        _solve(solver, costs, direction)
        seconds.append(time.perf_counter() - before_s)
    return seconds[1:]


def _solve(solver: str, costs: LayerCosts, direction: str) -> None:
    """From the costs to the cuts, running sums included, as Table I times it."""
    forward = direction == "forward"
    if solver == "paper_programme":
        (bellman.forward_cuts if forward else bellman.backward_cuts)(costs)
        return
    vectors = (costs.pull_s, costs.forward_s) if forward else (costs.push_s, costs.backward_s)
    sums = Direction(*vectors, costs.overhead_s)
    if solver == "dynacomm":
        optimal_cuts(sums)
    else:
        (forward_cuts if forward else backward_cuts)(sums)


def draw_by_layers(frame: pl.DataFrame) -> alt.FacetChart:
    """Time to plan against the number of layers, both axes logarithmic."""
    drawn = frame.with_columns(pl.col("solver").replace_strict(SOLVER_TITLES))
    x = alt.X(
        "layers:Q",
        scale=alt.Scale(type="log", nice=False, padding=8),
        title="layers",
        axis=alt.Axis(values=frame["layers"].unique().sort().to_list(), format="d"),
    )
    y = alt.Y(**parts.log_axis("median_ms", "ms to plan, this machine"))
    lines = parts.lines(drawn, x, y, "solver", list(SOLVER_TITLES.values()), height=200)
    return lines.facet(
        column=alt.Column("direction:N", sort=DIRECTIONS, title=None),
        title="Time to plan random chains",
        spacing=parts.APART_PX,
    )


def draw_planning_times(frame: pl.DataFrame) -> alt.FacetChart:
    """Time to plan against the window in which it is hidden (the grey rule)."""
    drawn = frame.with_columns(
        pl.col("model").replace_strict(MODEL_TITLES),
        pl.col("planner").replace_strict(PLANNER_TITLES),
        low_ms=pl.max_horizontal(pl.col("mean_ms") - pl.col("deviation_ms"), pl.col("mean_ms") / 2),
        high_ms=pl.col("mean_ms") + pl.col("deviation_ms"),
    )
    order = ["DynaComm", "iBatch"]
    base = alt.Chart(drawn).encode(y=alt.Y("model:N", sort=list(MODEL_TITLES.values()), title=None))
    beside = alt.YOffset("planner:N", sort=order)
    points = base.mark_point(filled=True, size=55).encode(
        x=alt.X("mean_ms:Q", scale=alt.Scale(type="log"), title="ms to plan, this machine"),
        color=parts.colour("planner", order),
        shape=parts.shape("planner", order),
        yOffset=beside,
    )
    spread = base.mark_rule().encode(x="low_ms:Q", x2="high_ms:Q", yOffset=beside)
    window = base.mark_tick(color=parts.GREY, thickness=2).encode(x="window_ms:Q")
    return (
        alt.layer(window, spread, points)
        .properties(height=110)
        .facet(
            row=alt.Row("direction:N", sort=DIRECTIONS, title=None),
            title=["Time to plan", "grey: the idle window, by the cost model"],
        )
    )


# Layers from which the cubic term of the programme shows; below, calls cost more than sums.
_CUBIC_FROM = 400


def _exponent(slopes: pl.DataFrame) -> Answer:
    largest = max(slopes["layers"].to_list())
    if largest < _CUBIC_FROM:
        return Answer(not_run=f"times {_CUBIC_FROM} layers and more at default scale")
    exponents = slopes.filter(solver="paper_programme")["exponent"].to_list()
    detail = f"the paper's programme in NumPy, up to {largest} layers, mean of both directions"
    return Answer(sum(exponents) / len(exponents), detail, timed=True)


def _solver(model: str, planner: str, direction: str, frame: pl.DataFrame) -> Answer | None:
    rows = frame.filter(model=model, planner=planner, direction=direction)
    detail = "our exact search" if planner == "dynacomm" else "the paper's greedies"
    return Answer(rows["mean_ms"].item(), detail, timed=True) if len(rows) else None


def _in_window(frame: pl.DataFrame) -> Answer:
    late = frame.filter(pl.col("mean_ms") >= pl.col("window_ms"))
    slowest = frame.sort("mean_ms")[-1].row(0, named=True)
    detail = f"at most {slowest['mean_ms']:.2f} ms of {slowest['window_ms']:.1f} ms"
    return Answer(late.is_empty(), detail, timed=True)


_REPEATS = Scaled(smoke=2, default=5, paper=5)

TABLE1 = Figure(
    id="table1",
    compute=planning_times,
    chart=draw_planning_times,
    sizes={"repeats": _REPEATS},
    answers={
        f"dynacomm.table1.{model}.{planner}_{short}": partial(_solver, model, planner, direction)
        for model in MODELS
        for planner in ("dynacomm", "ibatch")
        for short, direction in (("fwd", "forward"), ("bwd", "backward"))
    }
    | {"dynacomm.table1.window": _in_window},
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
    recorded=True,
    live=True,
    timings=True,
)

FIG12_SLOPES = Figure(
    id="fig12_slopes",
    compute=slopes,
    of=(FIG12,),
    answers={"dynacomm.fig12.exponent": _exponent},
    timings=True,
)

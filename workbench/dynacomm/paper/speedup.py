"""Fig. 11: training speed by the number of workers, by the cost model and simulated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

from workbench import figures
from workbench.dynacomm.costs import LayerCosts, iteration
from workbench.dynacomm.paper.testbed import BANDWIDTH_MBPS, WORKERS, iteration_ends_s, variant
from workbench.dynacomm.paper.titles import agreement, held, line_order, model_title, titled
from workbench.dynacomm.planners import PLANNERS
from workbench.dynacomm.programs import FixedPlan, Server, Worker
from workbench.figures import parts
from workbench.reproduction.claims import Answer, paper_values, tolerance
from workbench.reproduction.figure import Figure, at
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep, whole
from workbench.runtime import Program, simulate
from workbench.runtime.progress import Steps
from workbench.utils.numbers import link_rate

# By the cost model.


def speedups(
    workers: Iterable[int] = range(1, 9),
    model: str = "resnet152",
    batch_size: int = 32,
    bandwidth_mbps: float = BANDWIDTH_MBPS,
) -> pl.DataFrame:
    """Training speed of all workers over that of one without a network, against their number.

    Columns ``model, batch_size, bandwidth_mbps, workers, planner, speedup``.
    """
    rows = []
    for count in workers:
        testbed = variant(count, bandwidth_mbps)
        costs = testbed.costs(model, batch_size)
        for name, planner in PLANNERS.items():
            speedup = testbed.speedup(model, batch_size, planner(costs))
            rows.append((model, batch_size, bandwidth_mbps, count, name, speedup))
    schema = ["model", "batch_size", "bandwidth_mbps", "workers", "planner", "speedup"]
    return pl.DataFrame(rows, schema=schema, orient="row")


WORKERS_AXIS = alt.X("workers:Q", title="workers", axis=alt.Axis(tickMinStep=1, format="d"))


def draw_speedups(frame: pl.DataFrame) -> alt.LayerChart:
    """Training speed against the number of workers."""
    drawn = _stated(frame)
    title = [
        f"{model_title(frame)}: speed-up by number of workers",
        held(frame, "batch_size", "bandwidth_mbps"),
        *parts.rings_title(drawn),
    ]
    y = alt.Y("speedup:Q", title="speed-up over one worker without a network")
    order = line_order(frame)
    lines = parts.lines(titled(frame), WORKERS_AXIS, y, "planner", order, height=220, title=title)
    most = int(frame["workers"].max())  # type: ignore[arg-type]
    ideal = (
        alt.Chart(pl.DataFrame({"workers": [0], "speedup": [0], "to": [most]}))
        .mark_rule(color=parts.GREY)
        .encode(x="workers:Q", y="speedup:Q", x2="to:Q", y2="to:Q")
    )
    rings = parts.paper_rings(
        alt.Chart(titled(drawn)).encode(color=lines.encoding.color), x="workers:Q", y="paper:Q"
    )
    return ideal + lines + rings


def _stated(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the paper's speed-ups, ``planner, workers, paper``; none at another setting."""
    stated = paper_values("dynacomm.fig11.{planner}").with_columns(workers=pl.lit(WORKERS))
    return stated if len(FIG11.at_paper(frame)) else stated.clear()


def _speedup(planner: str, frame: pl.DataFrame) -> Answer | None:
    rows = frame.filter(planner=planner, workers=WORKERS)
    return Answer(rows["speedup"].item(), f"cost model, {WORKERS} workers") if len(rows) else None


def _diverges(frame: pl.DataFrame) -> Answer | None:
    """Whether the strategies are near each other with the fewest workers, but not with all."""
    compared = frame.filter(pl.col("planner").is_in(PLANNERS_OF_THE_PAPER[:-1]))
    fastest = compared.group_by("workers").agg(pl.col("speedup").max() / pl.col("speedup").min())
    times = dict(fastest.sort("workers").iter_rows())
    if WORKERS not in times or len(times) < 2:
        return None
    fewest, near = min(times), 1 + tolerance("x", 1.0)
    detail = f"the best over the worst: {times[fewest]:.2f} with {fewest}, {times[WORKERS]:.2f}"
    holds = times[fewest] <= near < times[WORKERS]
    return Answer(holds, f"{detail} with {WORKERS} workers, cost model")


FIG11 = Figure(
    id="fig11",
    compute=speedups,
    chart=draw_speedups,
    answers={
        **{
            f"dynacomm.fig11.{planner}": partial(_speedup, planner)
            for planner in ("dynacomm", "ibatch", "layer_by_layer")
        },
        "dynacomm.fig11.diverge": _diverges,
    },
    at_paper=at(bandwidth_mbps=BANDWIDTH_MBPS, model="resnet152", batch_size=32),
)


# Simulated.

SLOWEST = 0.6
"""Speed of the slowest worker where they are unequal; the fastest computes at speed 1."""

PLANNERS_OF_THE_PAPER = ("dynacomm", "ibatch", "layer_by_layer", "sequential")

SIMULATED_SPEEDUPS = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "bandwidth_mbps": pl.Float64,
    "case": pl.String,
    "slowest": pl.Float64,
    "workers": pl.Int64,
    "planner": pl.String,
    **dict.fromkeys(
        ("iteration_s", "speedup", "predicted_speedup", "difference_percent"), pl.Float64
    ),
}


def simulated_speedups(
    *,
    counts: Sequence[int],
    iterations: int,
    model: str = "resnet152",
    batch_size: int = 32,
    bandwidth_mbps: float = BANDWIDTH_MBPS,
    processes: int | None = 1,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Fig. 11 by simulation: all workers and servers, every message, shared interfaces.

    Once with ``equal`` workers, as the paper's are, and once ``unequal``, with speeds that fall
    evenly from 1 to `SLOWEST`. Every worker plans for its own speed and a fair share of the
    servers' interfaces. ``speedup`` is over a worker of speed 1 without a network, in the last
    iteration; ``predicted_speedup`` the cost model's.

    Equal workers transfer in lockstep, and so get the fair share that the cost model assumes. Of
    unequal ones the slowest decides, by the model; simulated, it transfers alone when the others
    are done.
    """
    points = [
        {"case": case, "last": last, **point}
        for case, last in (("equal", 1.0), ("unequal", SLOWEST))
        for point in grid(workers=counts, planner=PLANNERS_OF_THE_PAPER)
    ]
    shared = {
        "model": model,
        "batch_size": batch_size,
        "bandwidth_mbps": bandwidth_mbps,
        "iterations": iterations,
    }
    return sweep(
        _simulated_speedup,
        points,
        SIMULATED_SPEEDUPS,
        title="Figure 11, simulated",
        shared=shared,
        labels=("case",),
        with_steps=True,
        processes=processes,
        folder=folder,
    )


def _simulated_speedup(
    *,
    workers: int,
    planner: str,
    last: float,
    model: str,
    batch_size: int,
    bandwidth_mbps: float,
    iterations: int,
    steps: Steps,
) -> dict[str, float]:
    testbed = variant(workers, bandwidth_mbps)
    job = testbed.job(model, batch_size, iterations)
    speeds = np.linspace(1.0, last, workers).tolist()
    own = testbed.costs(model, batch_size)
    programs, iterations_s = list[Program](), list[float]()
    for speed in speeds:
        forward_s, backward_s = own.forward_s / speed, own.backward_s / speed
        costs = LayerCosts(own.pull_s, forward_s, backward_s, own.push_s, own.overhead_s)
        plan = PLANNERS[planner](costs)
        programs.append(Worker(job, FixedPlan(plan)))
        iterations_s.append(iteration(costs, plan).total_s)
    programs += [Server(job, position) for position in range(testbed.servers)]
    cluster = testbed.cluster(speeds)
    run = whole(simulate(cluster, programs, trace=True, progress=steps.virtual))
    ends_s = [0.0, *iteration_ends_s(run)]
    iteration_s = ends_s[-1] - ends_s[-2]
    predicted_s = job.aggregation_s + max(iterations_s)
    samples_per_s = [workers * batch_size / s for s in (iteration_s, predicted_s)]
    speedup, predicted = (rate / testbed.speed(model) for rate in samples_per_s)
    return {
        "slowest": speeds[-1],
        "iteration_s": iteration_s,
        "speedup": speedup,
        "predicted_speedup": predicted,
        "difference_percent": 100 * (speedup / predicted - 1),
    }


def draw_simulated(frame: pl.DataFrame) -> alt.FacetChart:
    """Training speed against the number of workers: simulated lines, the cost model's points."""
    encoded = figures.series("planner", line_order(frame))
    slowest = min(frame["slowest"].to_list())
    cases = {"equal": "equal workers", "unequal": f"unequal, speeds 1 to {slowest:g}"}
    stated = _stated(frame).with_columns(case=pl.lit("equal"))
    joined = frame.join(stated, on=["case", "planner", "workers"], how="left")
    drawn = titled(joined).with_columns(pl.col("case").replace_strict(cases))
    base = alt.Chart(drawn).encode(x=WORKERS_AXIS, color=encoded["color"])
    simulated = base.mark_line().encode(
        y=alt.Y("speedup:Q", title="speed-up over one worker alone"),
        strokeDash=encoded["strokeDash"],
    )
    predicted = base.mark_point(size=40).encode(y="predicted_speedup:Q", shape=encoded["shape"])
    rings = parts.paper_rings(base, y="paper:Q")
    title = [
        f"{model_title(frame)}: speed-up by number of workers",
        f"batch {frame['batch_size'][0]}, {link_rate(frame['bandwidth_mbps'][0])}, "
        "lines simulated, points cost model",
        agreement(frame),
        *parts.rings_title(drawn),
    ]
    return (
        alt.layer(simulated, predicted, rings)
        .properties(height=190)
        .facet(
            column=alt.Column("case:N", sort=list(cases.values()), title=None),
            title=title,
            spacing=parts.APART_PX,
        )
    )


FIG11_SIMULATED = Figure(
    id="fig11_simulated",
    compute=simulated_speedups,
    chart=draw_simulated,
    sizes={
        "counts": Scaled(smoke=(1, 6), default=tuple(range(1, 9)), paper=tuple(range(1, 9))),
        "iterations": Scaled(smoke=2, default=2, paper=5),  # the last one counts
    },
    recorded=True,
    live=True,
)

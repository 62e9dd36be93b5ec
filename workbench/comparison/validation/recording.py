"""Every case measured again and again, in random order: ``workbench record three_ways runs``.

A run is a row, kept as soon as it has ended, so that a recording that was stopped goes on where it
was. Runs that the machine disturbed (`MeasuredRun.disturbed`) are void: they are kept and counted,
and no error is computed from them.

On a machine that is busy with other things, ``chrt --rr 5`` before the command (Linux, as root)
lets the processes of a run go first; so runs are late no more than on an idle one.
"""

from __future__ import annotations

import os
import random
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import polars as pl

from workbench.comparison.validation.cases import PLACES, Case, Outcome, cases
from workbench.reproduction import recordings
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep
from workbench.runtime import SimulationError
from workbench.runtime.measured import MeasuredRun, session
from workbench.utils.checks import UserError

MOST_OVERTIME = 0.02
"""Work fits the machine if it takes longer than it may by less than this share of the run."""

SCHEMA = {
    **dict.fromkeys(("system", "setting", "choice", "regime", "predicted_by"), pl.String),
    "ordered": pl.Boolean,
    **dict.fromkeys(("nodes", "iterations", "repetition"), pl.Int64),
    **dict.fromkeys(("predicted_s", "naive_s", "simulated_s", "measured_s"), pl.Float64),
    **dict.fromkeys(("deadlines", "late"), pl.Int64),
    **dict.fromkeys(("late_s", "worst_late_s"), pl.Float64),
    **dict.fromkeys(("works", "works_late"), pl.Int64),
    **dict.fromkeys(("works_late_s", "steal", "load", "clock_error_s"), pl.Float64),
    **dict.fromkeys(("same_weights", "void", "fits"), pl.Boolean),
    **dict.fromkeys(("priority", "reason"), pl.String),
}
"""Columns of a row for each run.

Seconds are those of an iteration, of `late_s` and `works_late_s` the sum in the run. `deadlines`
are ends of transfers and of waits, `works` pieces of work, which are late if they took longer than
they may. `load` is the machine's load average before the run. Earlier recordings have an ``arm``,
too: ``"unpadded"`` where work took its own time (`RunOptions(measured="unpadded")`).
"""


def runs(of_each: int | None, repetitions: int, folder: Path | None = None) -> pl.DataFrame:
    """Measure all cases, or some of each system, in random order; a row for each run."""
    by_system = groupby(cases().values(), lambda case: case.system)
    chosen = chain.from_iterable(list(group)[:of_each] for _, group in by_system)
    points = grid(name=[case.name for case in chosen], repetition=range(repetitions))
    random.Random(0).shuffle(points)
    with session(places=PLACES):
        return sweep(
            one_run, points, SCHEMA, title="Measured", folder=folder, failures=SimulationError
        )


def one_run(name: str, repetition: int) -> dict[str, Any]:
    """Measure a case once."""
    case, load = cases()[name], os.getloadavg()[0]
    _ = case.simulated  # before, so that nothing else computes while it is measured
    return {"load": load} | row(case, case.measure())


def row(case: Case, measured: Outcome) -> dict[str, Any]:
    """What a case is, each way's seconds, and how far the machine let it be measured."""
    run = measured.run
    assert isinstance(run, MeasuredRun)
    is_work = pl.col("kind") == "work"
    waits, works = run.late.filter(~is_work), run.late.filter(is_work)
    about = ("system", "setting", "choice", "regime", "predicted_by", "ordered", "iterations")
    return {
        **{name: getattr(case, name) for name in about},
        "nodes": len(measured.cluster),
        "predicted_s": case.predicted_s,
        "naive_s": case.naive_s,
        "simulated_s": case.simulated.iteration_s,
        "measured_s": measured.iteration_s,
        "deadlines": waits["count"].sum(),
        "late": waits["late"].sum(),
        "late_s": waits["total_s"].sum(),
        "worst_late_s": waits["worst_s"].max(),
        "works": works["count"].sum(),
        "works_late": works["late"].sum(),
        "works_late_s": works["total_s"].sum(),
        "steal": run.steal,
        "clock_error_s": run.clock_error_s,
        "same_weights": same_weights(case.simulated, measured),
        "void": run.disturbed,
        "fits": float(works["total_s"].sum()) <= MOST_OVERTIME * run.end_s,
        "priority": priority(),
    }


def priority() -> str:
    """How the machine's scheduler treats this process and those that it starts."""
    real_time = hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) in (1, 2)
    return "real time" if real_time else f"nice {os.nice(0)}"


def same_weights(simulated: Outcome, measured: Outcome) -> bool | None:
    """Whether weights are equal bit for bit; None where there are none."""
    if simulated.weights is None or measured.weights is None:
        return None
    pairs = zip(simulated.weights, measured.weights, strict=True)
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


RUNS = Figure(
    id="runs",
    compute=runs,
    sizes={
        "of_each": Scaled[int | None](smoke=2, default=None, paper=None),
        "repetitions": Scaled(smoke=1, default=1, paper=10),
    },
    recorded=True,
    timings=True,
)
FIGURES = (RUNS,)


def recorded_runs() -> pl.DataFrame:
    """The recorded runs in which work lasts as long as the model says; prints what they are."""
    found = recordings.load("three_ways", RUNS.id)
    if found is None:
        raise UserError("no runs are recorded; `workbench record three_ways runs` records them")
    print(found)
    return found.frame.filter(arm="padded") if "arm" in found.frame.columns else found.frame

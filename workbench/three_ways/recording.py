"""Every case measured again and again, in random order: ``workbench record three_ways runs``.

A run is a row, kept as soon as it has ended, so that a recording that was stopped goes on where it
was. Runs that the machine disturbed (`MeasuredRun.disturbed`) are void: they are kept and counted,
and no error is computed from them.
"""

from __future__ import annotations

import os
import random
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import polars as pl

from workbench.reproduction import recordings
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep
from workbench.runtime import SimulationError
from workbench.runtime.measured import MeasuredRun, session
from workbench.three_ways.case import Case, Outcome
from workbench.three_ways.catalogue import cases
from workbench.training import TrainingError
from workbench.utils.checks import UserError

PLACES = 6
MOST_OVERTIME_S = 0.02
"""A run's work fits the machine if it takes longer than it may by less than this share of the run's
seconds; unpadded, if no more nodes compute at the same time than there are cores."""

SCHEMA = {
    **dict.fromkeys(("system", "setting", "choice", "arm", "regime", "predicted_by"), pl.String),
    **dict.fromkeys(("ordered", "held_out"), pl.Boolean),
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
they may. `load` is the machine's load average before the run.

On a machine that is busy with other things, ``chrt --rr 5`` before the command (Linux, as root)
lets the processes of a run go first; so runs are late no more than on an idle one.
"""


def runs(of_each: int | None, repetitions: int, folder: Path | None = None) -> pl.DataFrame:
    """Measure all cases, or some of each system and arm, in random order; a row for each run."""
    chosen = chain.from_iterable(
        list(group)[:of_each]
        for _, group in groupby(cases().values(), lambda case: (case.system, case.arm))
    )
    points = grid(name=[case.name for case in chosen], repetition=range(repetitions))
    random.Random(0).shuffle(points)
    with session(places=PLACES):
        return sweep(
            one_run,
            points,
            SCHEMA,
            title="Measured",
            folder=folder,
            failures=(SimulationError, TrainingError),
        )


def one_run(name: str, repetition: int) -> dict[str, Any]:
    """Measure a case once."""
    case, load = cases()[name], os.getloadavg()[0]
    _ = case.simulated  # before, so that nothing else computes while it is measured
    about = described(case) | {"load": load, "priority": priority()}
    return about | row(case, case.run(case.measured_how))


def described(case: Case) -> dict[str, Any]:
    """What a case is, and its seconds without a measurement."""
    names = ("system", "setting", "choice", "arm", "regime", "predicted_by", "ordered", "held_out")
    numbers = ("nodes", "iterations", "predicted_s", "naive_s")
    found = {name: getattr(case, name) for name in (*names, *numbers)}
    return found | {"simulated_s": case.simulated.iteration_s}


def row(case: Case, measured: Outcome) -> dict[str, Any]:
    """What a run measured, and how far the machine let it."""
    run = measured.run
    assert isinstance(run, MeasuredRun)
    work = pl.col("kind") == "work"
    waits, works = run.late.filter(~work), run.late.filter(work)
    return {
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
        "fits": case.computing_at_once <= (os.cpu_count() or 1)
        if case.arm == "unpadded"
        else float(works["total_s"].sum()) <= MOST_OVERTIME_S * run.end_s,
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
    """The recorded runs; prints what they are."""
    found = recordings.load("three_ways", RUNS.id)
    if found is None:
        raise UserError("no runs are recorded; `workbench record three_ways runs` records them")
    print(found)
    return found.frame

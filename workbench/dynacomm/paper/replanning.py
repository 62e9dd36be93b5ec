"""Planning again while the bandwidth changes: an experiment of our own, simulated."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from workbench import figures
from workbench.clusters import Link, Schedule, star
from workbench.dynacomm.paper.testbed import iteration_ends_s, paper_testbed
from workbench.dynacomm.paper.titles import model_title
from workbench.dynacomm.programs.worker_and_server import Fixed, Planning, Server, Worker
from workbench.dynacomm.replanning.clairvoyant import Clairvoyant
from workbench.dynacomm.replanning.mobile_trace import TRACE
from workbench.dynacomm.replanning.profiling import EPOCH, Profile, Rate, Replanned
from workbench.figures import parts
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep, whole
from workbench.runtime import Program, simulate
from workbench.runtime.progress import Steps

POLICIES = ("static", "per_epoch", "per_iteration", "clairvoyant")


def mobile(seed: int, until_s: float) -> Schedule:
    """The trace from a second that the seed draws, repeated when it ends."""
    trace = Schedule.from_csv(TRACE, scale=1e6)
    first = int(np.random.default_rng(seed).integers(len(trace.values)))
    seconds = range(max(1, math.ceil(until_s)))
    return Schedule(
        tuple(float(second) for second in seconds),
        tuple(trace.values[(first + second) % len(trace.values)] for second in seconds),
    )


REPLANNED = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "seed": pl.Int64,
    "scenario": pl.String,
    "policy": pl.String,
    **dict.fromkeys(("planned_every", "epoch_iterations", "iteration"), pl.Int64),
    **dict.fromkeys(("start_s", "duration_s", "bandwidth_mbps"), pl.Float64),
    "transmissions": pl.Int64,
}


def replanning(
    iterations: int,
    epoch_iterations: int,
    seed: int = 1,
    model: str = "resnet152",
    batch_size: int = 32,
    *,
    processes: int | None = 1,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Training over a link whose bandwidth changes, planned once, again and again, or knowingly.

    One worker and one server on the paper's testbed. In `step` the bandwidth halves after half of
    the time that computation alone takes; in `sawtooth` it falls to a quarter and jumps back every
    two epochs; `mobile` is the synthetic trace of ``data/traces``, started where the seed says.
    Every policy starts with DynaComm's plan for the first iteration's mean bandwidth; `static`
    keeps it, the others plan from observations since their last plan.

    Deviation: an epoch has fewer iterations than the paper's 195 except at scale ``paper``, so that
    a run of minutes has several; `per_epoch` then plans the more often.

    A row per scenario, policy and iteration: ``model, batch_size, seed, scenario, policy,
    planned_every`` (iterations under one plan; null if there is but one), ``epoch_iterations`` (of
    one epoch), ``iteration`` (from 1), ``start_s, duration_s, bandwidth_mbps`` (mean over the
    iteration), ``transmissions`` (pulls and pushes).
    """
    shared = {
        "model": model,
        "batch_size": batch_size,
        "seed": seed,
        "iterations": iterations,
        "epoch_iterations": epoch_iterations,
    }
    points = grid(scenario=("step", "sawtooth", "mobile"), policy=POLICIES)
    return sweep(
        _replanned,
        points,
        REPLANNED,
        title="Re-planning",
        shared=shared,
        with_steps=True,
        processes=processes,
        folder=folder,
    )


def _replanned(
    *,
    scenario: str,
    policy: str,
    model: str,
    batch_size: int,
    seed: int,
    iterations: int,
    epoch_iterations: int,
    steps: Steps,
) -> list[dict[str, object]]:
    job = replace(paper_testbed(), workers=1, servers=1).job(model, batch_size, iterations)
    computed_s = iterations * float(job.forward_s.sum() + job.backward_s.sum())
    first_s = computed_s / iterations
    schedule = _bandwidth(scenario, computed_s, first_s * epoch_iterations, seed)
    link = Link(schedule, overhead_s=paper_testbed().link.overhead_s)
    rate = Rate(link.overhead_s, schedule.served(0, first_s) / first_s)

    def replanned(every: int) -> Replanned:
        return Replanned(job, Profile.before(job, rate, window=every), every=every)

    every: int | None
    planning: Planning[Any]
    if policy == "static":
        every, planning = None, Fixed(replanned(epoch_iterations).begin()[1])
    elif policy == "clairvoyant":
        every, planning = 1, Clairvoyant(job, link, link)
    else:
        every = epoch_iterations if policy == "per_epoch" else 1
        planning = replanned(every)
    programs: list[Program] = [Worker(job, planning), Server(job, 0)]
    run = whole(simulate(star(1, 1, link), programs, trace=True, progress=steps.virtual))
    ends_s = [0.0, *iteration_ends_s(run)]
    return [
        {
            "planned_every": every,
            "iteration": number,
            "start_s": start_s,
            "duration_s": end_s - start_s,
            "bandwidth_mbps": schedule.served(start_s, end_s) / (end_s - start_s) / 1e6,
            "transmissions": len(plan.forward_cuts) + len(plan.backward_cuts) + 2,
        }
        for number, (plan, start_s, end_s) in enumerate(
            zip(run.results[0].plans, ends_s[:-1], ends_s[1:], strict=True), 1
        )
    ]


def _bandwidth(scenario: str, computed_s: float, epoch_s: float, seed: int) -> Schedule:
    full_bps = float(paper_testbed().link.bandwidth_bps)  # type: ignore[arg-type]
    if scenario == "step":
        return Schedule.of([(0, full_bps), (computed_s / 2, full_bps / 2)])
    if scenario == "mobile":
        return mobile(seed, until_s=4 * computed_s)
    low_bps, period_s = full_bps / 4, 2 * epoch_s

    def sawtooth(at_s: float) -> float:  # falls in ten levels, jumps back
        fallen = int(at_s / period_s * 10 + 0.5) % 10 / 9
        return full_bps + (low_bps - full_bps) * fallen

    return Schedule.sampled(sawtooth, step_s=period_s / 10, end_s=4 * computed_s)


def replanning_gains(frame: pl.DataFrame) -> pl.DataFrame:
    """What each policy of `replanning` takes in all.

    Frames of several models, batch sizes, scales or seeds may be joined: each policy is compared
    with those of its own run.

    A row per run, scenario and policy: ``model, batch_size, seed, scenario, epoch_iterations,
    policy, planned_every, total_s, gain_percent`` (time saved over static; below 0 if it took
    more), ``gap_percent`` (time above clairvoyant).
    """
    run = ["model", "batch_size", "seed", "scenario", "epoch_iterations"]

    def of(policy: str) -> pl.Expr:
        return pl.col("total_s").filter(pl.col("policy") == policy).first().over(run)

    return (
        frame.group_by([*run, "policy", "planned_every"], maintain_order=True)
        .agg(total_s=pl.col("duration_s").sum())
        .with_columns(
            gain_percent=100 * (1 - pl.col("total_s") / of("static")),
            gap_percent=100 * (pl.col("total_s") / of("clairvoyant") - 1),
        )
    )


SCENARIO_TITLES = {
    "step": "step down to a half",
    "sawtooth": "sawtooth",
    "mobile": "mobile-like (synthetic)",
}


def policy_titles(frame: pl.DataFrame) -> dict[str, str]:
    """Policies of a frame of `replanning`, by how often they plan in it."""
    every = dict(frame.select("policy", "planned_every").unique(maintain_order=True).iter_rows())
    titles = {
        "static": "planned once",
        "per_epoch": f"every {every.get('per_epoch')} iterations",
        "per_iteration": "every iteration",
        "clairvoyant": "clairvoyant",
    }
    return {policy: title for policy, title in titles.items() if policy in every}


def draw_replanning(frame: pl.DataFrame) -> alt.FacetChart:
    """Iteration time by policy while the bandwidth changes, a row per scenario."""
    encoded = figures.series("policy", list(policy_titles(frame).values()))
    del encoded["shape"]  # a point for each iteration would hide the lines
    lines = (
        alt.Chart(_policies_titled(frame))
        .mark_line(interpolate="step-after", strokeWidth=1.2)
        .encode(
            x=alt.X("start_s:Q", title="virtual seconds", axis=alt.Axis(format="d")),
            y=alt.Y("duration_s:Q", title="iteration, s", scale=alt.Scale(zero=False)),
            **encoded,
        )
        .properties(height=110)
    )
    chart = _by_scenario(lines, frame, "iterations while the bandwidth changes")
    return chart.resolve_scale(y="independent")


def draw_gains(frame: pl.DataFrame) -> alt.FacetChart:
    """Time that each policy saves over planning once, a row per scenario."""
    policies = [title for name, title in policy_titles(frame).items() if name != "static"]
    bars = (
        alt.Chart(_policies_titled(frame.filter(pl.col("policy") != "static")))
        .mark_bar()
        .encode(
            x=alt.X("gain_percent:Q", title="training time saved, %"),
            y=alt.Y("policy:N", sort=policies, title=None),
            color=parts.colour("policy", policies, skip=1, legend=None),
        )
        .properties(height=54)
    )
    return _by_scenario(bars, frame, "time saved by planning again")


def _by_scenario(chart: alt.Chart, frame: pl.DataFrame, subject: str) -> alt.FacetChart:
    """A row for each scenario; the title says how long an epoch is, beside the paper's."""
    iterations = frame["epoch_iterations"][0]
    beside = ", as in the paper" if iterations == EPOCH else f" (the paper: {EPOCH})"
    return chart.facet(
        facet=alt.Facet("scenario:N", sort=list(SCENARIO_TITLES.values()), title=None),
        columns=1,
        title=[
            f"{model_title(frame)}: {subject}",
            f"batch {frame['batch_size'][0]}, one worker, one server (simulated)",
            f"an epoch is {iterations} iterations{beside}",
        ],
    )


def _policies_titled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.col("policy").replace_strict(policy_titles(frame)),
        pl.col("scenario").replace_strict(SCENARIO_TITLES),
    )


REPLANNING = Figure(
    id="replanning",
    compute=replanning,
    chart=draw_replanning,
    sizes={
        "iterations": Scaled(smoke=9, default=80, paper=780),
        "epoch_iterations": Scaled(smoke=3, default=10, paper=195),
    },
    recorded=True,
    live=True,
)

GAINS = Figure(id="replanning_gains", compute=replanning_gains, chart=draw_gains, of=(REPLANNING,))

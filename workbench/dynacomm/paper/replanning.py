"""Planning again while the bandwidth changes: an experiment of our own, simulated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from workbench import figures
from workbench.clusters import Link, Schedule, star
from workbench.dynacomm.costs import Plan, iteration
from workbench.dynacomm.paper.testbed import iteration_ends_s, paper_testbed
from workbench.dynacomm.paper.titles import model_title
from workbench.dynacomm.planners import dynacomm
from workbench.dynacomm.profiler import EPOCH, Line, Profile, Replanning, planning_s
from workbench.dynacomm.programs import FixedPlan, Job, Policy, Server, Worker
from workbench.figures import parts
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep, whole
from workbench.runtime import Program, simulate
from workbench.runtime.progress import Steps
from workbench.utils import files

POLICIES = ("static", "per_epoch", "per_iteration", "known_bandwidth")
TRACE = files.DATA / "traces" / "mobile_synthetic.csv"

ITERATIONS = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "seed": pl.Int64,
    "scenario": pl.String,
    "policy": pl.String,
    **dict.fromkeys(("period", "epoch_iterations", "iteration"), pl.Int64),
    **dict.fromkeys(("start_s", "duration_s", "bandwidth_mbps"), pl.Float64),
    "transmissions": pl.Int64,
}


@dataclass(frozen=True)
class KnownBandwidth:
    """DynaComm, told the mean bandwidth of the next forward and backward pass, at no cost."""

    job: Job
    overhead_s: float
    bandwidth_bps: Schedule
    planning_s: float = 0.0

    def begin(self) -> tuple[None, Plan]:
        """No state, and the plan of the first iteration."""
        return None, self._from(0.0)

    def step(self, state: None, number: int, now_s: float, *_: object) -> tuple[None, Plan]:
        """Plan the coming iteration."""
        return None, self._from(now_s)

    def _from(self, start_s: float) -> Plan:
        """Plan for the mean while computation alone takes, then while that plan takes."""
        forward_s, backward_s = self.job.forward_s.sum(), self.job.backward_s.sum()
        for _ in range(3):
            pull = self._mean(start_s, float(forward_s))
            push = self._mean(start_s + float(forward_s), float(backward_s))
            costs = replace(Profile.before(self.job, pull), push=push).costs(self.job)
            plan = dynacomm(costs)
            done = iteration(costs, plan)
            forward_s, backward_s = done.forward_s, done.backward_s
        return plan

    def _mean(self, start_s: float, seconds: float) -> Line:
        served_bits = self.bandwidth_bps.served(start_s, start_s + seconds)
        return Line(self.overhead_s, served_bits / seconds)


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
    """Training over a link whose bandwidth changes: planned once, again and again, or knowingly.

    One worker and one server on the paper's testbed. In `step` the bandwidth halves after half of
    the time that computation alone takes; in `sawtooth` it falls to a quarter and jumps back every
    two epochs; `mobile` is the synthetic trace of ``data/traces``, started where the seed says.
    Every policy starts with DynaComm's plan for the first iteration's mean bandwidth; `static`
    keeps it, `known_bandwidth` is told the mean bandwidth of each pass, the others plan from
    observations since their last plan, which takes what it took the paper for the model.

    A row per scenario, policy and iteration: ``period`` is null where there is one plan,
    ``bandwidth_mbps`` the mean over the iteration, ``transmissions`` are pulls and pushes.

    Deviation: below scale ``paper`` an epoch has fewer iterations than the paper's, so that a run
    of minutes has several.
    """
    shared = {
        "model": model,
        "batch_size": batch_size,
        "seed": seed,
        "iterations": iterations,
        "epoch_iterations": epoch_iterations,
    }
    return sweep(
        _iterations,
        grid(scenario=("step", "sawtooth", "mobile"), policy=POLICIES),
        ITERATIONS,
        title="Re-planning",
        shared=shared,
        with_steps=True,
        processes=processes,
        folder=folder,
    )


def _iterations(
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
    once_s = float(job.forward_s.sum() + job.backward_s.sum())
    schedule = _bandwidth(scenario, iterations * once_s, once_s * epoch_iterations, seed)
    link = Link(schedule, overhead_s=paper_testbed().link.overhead_s)
    profile = Profile.before(job, Line(link.overhead_s, schedule.served(0, once_s) / once_s))
    period = {"per_epoch": epoch_iterations, "per_iteration": 1, "known_bandwidth": 1}.get(policy)
    plans: Policy[Any]
    if period is None:
        plans = FixedPlan(dynacomm(profile.costs(job)))
    elif policy == "known_bandwidth":
        plans = KnownBandwidth(job, link.overhead_s, schedule)
    else:
        plans = Replanning(job, profile, period, planning_s=planning_s(model, job.layers))
    programs: list[Program] = [Worker(job, plans), Server(job, 0)]
    run = whole(simulate(star(1, 1, link), programs, trace=True, progress=steps.virtual))
    ends_s = [0.0, *iteration_ends_s(run)]
    return [
        {
            "period": period,
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


def mobile(seed: int, until_s: float) -> Schedule:
    """The trace from a second that the seed draws, repeated when it ends."""
    trace = Schedule.from_csv(TRACE, scale=1e6)
    first = int(np.random.default_rng(seed).integers(len(trace.values)))
    seconds = range(max(1, math.ceil(until_s)))
    return Schedule(
        tuple(float(second) for second in seconds),
        tuple(trace.values[(first + second) % len(trace.values)] for second in seconds),
    )


def replanning_gains(frame: pl.DataFrame) -> pl.DataFrame:
    """What each policy of `replanning` takes in all; frames of several runs may be joined.

    A row per run, scenario and policy, with ``total_s, gain_percent`` (time saved over static;
    below 0 if it took more) and ``gap_percent`` (time above that with a known bandwidth).
    """
    run = ["model", "batch_size", "seed", "scenario", "epoch_iterations"]

    def total_s(policy: str) -> pl.Expr:
        return pl.col("total_s").filter(pl.col("policy") == policy).first().over(run)

    return (
        frame.group_by([*run, "policy", "period"], maintain_order=True)
        .agg(total_s=pl.col("duration_s").sum())
        .with_columns(
            gain_percent=100 * (1 - pl.col("total_s") / total_s("static")),
            gap_percent=100 * (pl.col("total_s") / total_s("known_bandwidth") - 1),
        )
    )


SCENARIO_TITLES = {
    "step": "step down to a half",
    "sawtooth": "sawtooth",
    "mobile": "mobile-like (synthetic)",
}
POLICY_TITLES = {
    "static": "planned once",
    "per_epoch": "every epoch",
    "per_iteration": "every iteration",
    "known_bandwidth": "bandwidth known",
}


def draw_replanning(frame: pl.DataFrame) -> alt.FacetChart:
    """Iteration time by policy while the bandwidth changes, a row per scenario."""
    drawn = parts.titled(frame, policy=POLICY_TITLES, scenario=SCENARIO_TITLES)
    encoded = figures.series("policy", parts.present(frame["policy"], POLICY_TITLES))
    del encoded["shape"]  # a point for each iteration would hide the lines
    iterations = frame["epoch_iterations"][0]
    beside = ", as in the paper" if iterations == EPOCH else f" (the paper: {EPOCH})"
    lines = (
        alt.Chart(drawn)
        .mark_line(interpolate="step-after", strokeWidth=1.2)
        .encode(
            x=alt.X("start_s:Q", title="virtual seconds", axis=alt.Axis(format="d")),
            y=alt.Y("duration_s:Q", title="iteration, s", scale=alt.Scale(zero=False)),
            **encoded,
        )
        .properties(height=110)
    )
    chart: alt.FacetChart = lines.facet(
        facet=alt.Facet("scenario:N", sort=list(SCENARIO_TITLES.values()), title=None),
        columns=1,
        title=[
            f"{model_title(frame)}: iterations while the bandwidth changes",
            f"batch {frame['batch_size'][0]}, one worker, one server (simulated)",
            f"an epoch is {iterations} iterations{beside}",
        ],
    )
    return chart.resolve_scale(y="independent")


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

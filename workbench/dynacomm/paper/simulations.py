"""DynaComm on the simulated network: experiments of our own, and Fig. 11 once more.

Training here moves bytes and charges seconds, but computes no gradients; for learning see
`workbench.dynacomm.training.train`. All layers' times and bytes are those of the cost model.

Ctrl-C raises `ExperimentInterrupted`, whose `frame` has the rows of all finished simulations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from workbench.clusters import Link, Schedule, star
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.costs.iteration import LayerCosts, iteration
from workbench.dynacomm.paper.simulated_testbed import (
    cluster_of,
    iteration_ends_s,
    job_of,
    mobile,
    sawtooth,
)
from workbench.dynacomm.paper.testbed import paper_testbed, variant
from workbench.dynacomm.programs.worker_and_server import Fixed, Planning, server, worker
from workbench.dynacomm.replanning.planning import Clairvoyant, Replanned
from workbench.dynacomm.replanning.profiling import Profile
from workbench.dynacomm.replanning.rates import Rate
from workbench.interrupted import keeping
from workbench.names import choose
from workbench.profiles import profile_model
from workbench.runtime import Run, progress, simulate

PLANNERS_OF_THE_PAPER = ("dynacomm", "ibatch", "layer_by_layer", "sequential")
POLICIES = ("static", "per_epoch", "per_iteration", "clairvoyant")


class Scale(NamedTuple):
    """How much of what can be made smaller is run."""

    iterations: int  # re-planning
    epoch: int  # iterations of one; the paper's is 195
    workers: Sequence[int]  # Fig. 11
    repeats: int  # iterations of Fig. 11, of which the last counts


SCALES = {
    "smoke": Scale(9, 3, (1, 6), 2),
    "default": Scale(80, 10, tuple(range(1, 9)), 2),
    "paper": Scale(780, 195, tuple(range(1, 9)), 5),
}
"""What each scale means for the simulations."""


def replanning(
    scale: str = "default", seed: int = 0, model: str = "resnet152", batch_size: int = 32
) -> pl.DataFrame:
    """Training over a link whose bandwidth changes, planned once, again and again, or knowingly.

    One worker and one server on the paper's testbed. In `step` the bandwidth halves after half of
    the time that computation alone takes; in `sawtooth` it falls to a quarter and jumps back every
    two epochs; `mobile` is the synthetic trace of ``data/traces``, begun where the seed says. Every
    policy starts with DynaComm's plan for the first iteration's mean bandwidth; `static` keeps it,
    and the others plan from what has been observed since they last planned.

    Deviation: an epoch has fewer iterations than the paper's 195 except at scale ``paper``, so
    that a run of minutes has several; `per_epoch` then plans the more often.

    Returns
    -------
    polars.DataFrame
        A row per scenario, policy and iteration: ``model, batch_size, seed, scenario, policy,
        planned_every`` (iterations under one plan; null if there is but one),
        ``epoch_iterations`` (of one epoch), ``iteration`` (from 1), ``start_s, duration_s,
        bandwidth_mbps`` (mean over the iteration), ``transmissions`` (pulls and pushes).

    Raises
    ------
    ExperimentInterrupted
        Ctrl-C; its `frame` has the rows of the policies that were done.
    """
    sizes, testbed = choose("scale", scale, SCALES), paper_testbed()
    costs = testbed.costs(model, batch_size)
    planned_s = sizes.iterations * float(costs.forward_s.sum() + costs.backward_s.sum())
    epoch_s = planned_s / sizes.iterations * sizes.epoch
    full_bps = float(testbed.link.bandwidth_bps)  # type: ignore[arg-type]
    scenarios = {
        "step": Schedule.of([(0, full_bps), (planned_s / 2, full_bps / 2)]),
        "sawtooth": sawtooth(full_bps, full_bps / 4, 2 * epoch_s, until_s=4 * planned_s),
        "mobile": mobile(seed, until_s=4 * planned_s),
    }
    rows: list[tuple[Any, ...]] = []

    def frame() -> pl.DataFrame:
        return pl.DataFrame(rows, schema=REPLANNED, orient="row")

    total = len(scenarios) * len(POLICIES)
    with progress.steps("Re-planning", total) as told, keeping(frame):
        for scenario, schedule in scenarios.items():
            link = Link(schedule, overhead_s=testbed.link.overhead_s)
            alone = replace(testbed, workers=1, servers=1)
            job = job_of(alone, model, batch_size, sizes.iterations)
            first_s = planned_s / sizes.iterations
            rate = Rate(link.overhead_s, schedule.served(0, first_s) / first_s)
            per_epoch, per_iteration = (
                Replanned(job, Profile.before(job, rate, window=every), every=every)
                for every in (sizes.epoch, 1)
            )
            policies: dict[str, tuple[int | None, Planning[Any]]] = {
                "static": (None, Fixed(per_epoch.begin()[1])),
                "per_epoch": (sizes.epoch, per_epoch),
                "per_iteration": (1, per_iteration),
                "clairvoyant": (1, Clairvoyant(job, link, link)),
            }
            for policy, (every, planning) in policies.items():
                told(f"{scenario}, {policy.replace('_', ' ')}")
                programs = [worker(job, planning), server(job, 0)]
                run = simulate(star(1, 1, link), programs, trace=True, progress=told.virtual)
                ends_s = [0.0, *iteration_ends_s(_whole(run))]
                for number, plan in enumerate(run.results[0].plans):
                    start_s, end_s = ends_s[number], ends_s[number + 1]
                    mean_mbps = schedule.served(start_s, end_s) / (end_s - start_s) / 1e6
                    sent = len(plan.forward_cuts) + len(plan.backward_cuts) + 2
                    about = (model, batch_size, seed, scenario, policy, every, sizes.epoch)
                    rows.append((*about, number + 1, start_s, end_s - start_s, mean_mbps, sent))
    return frame()


REPLANNED = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "seed": pl.Int64,
    "scenario": pl.String,
    "policy": pl.String,
    "planned_every": pl.Int64,
    "epoch_iterations": pl.Int64,
    "iteration": pl.Int64,
    "start_s": pl.Float64,
    "duration_s": pl.Float64,
    "bandwidth_mbps": pl.Float64,
    "transmissions": pl.Int64,
}


def replanning_gains(frame: pl.DataFrame) -> pl.DataFrame:
    """What each policy of `replanning` takes in all.

    Frames of several models, batch sizes, scales or seeds may be joined: each policy is compared
    with those of its own run.

    Returns
    -------
    polars.DataFrame
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


SLOWEST = 0.6
"""Speed of the slowest worker where they are unequal; the fastest computes at speed 1."""


def fig11_simulated(
    scale: str = "default",
    model: str = "resnet152",
    batch_size: int = 32,
    bandwidth_mbps: float = 10_000.0,
    slowest: float = SLOWEST,
) -> pl.DataFrame:
    """Fig. 11 by simulation: all workers and servers, every message, shared interfaces.

    Once with equal workers, as the paper's are, and once with speeds that fall evenly from 1 to
    `slowest`. Every worker plans for its own speed and a fair share of the servers' interfaces.

    Returns
    -------
    polars.DataFrame
        A row per case (``equal``, ``unequal``), number of workers and planner: ``model,
        batch_size, bandwidth_mbps, case, slowest`` (speed of the slowest worker), ``workers,
        planner, iteration_s`` (the last one simulated), ``speedup`` (over a worker of speed 1
        without a network), ``predicted_speedup`` (the cost model's), ``difference_percent``
        (simulated over predicted, minus one).

    Raises
    ------
    ValueError
        `slowest` is not above 0 and at most 1.
    ExperimentInterrupted
        Ctrl-C; its `frame` has the finished rows.

    Notes
    -----
    The cost model knows one worker with its fair share of the bandwidth at all times. Equal workers
    transfer in lockstep, and that is what they get. Of unequal ones the slowest decides, by the
    model; in the simulation it transfers alone when the others are done.
    """
    if not 0 < slowest <= 1:
        raise ValueError(f"slowest is {slowest}; it is a speed above 0 and at most 1")
    sizes = choose("scale", scale, SCALES)
    rows: list[tuple[Any, ...]] = []
    cases = {"equal": 1.0, "unequal": slowest}
    total = len(cases) * len(sizes.workers) * len(PLANNERS_OF_THE_PAPER)

    def frame() -> pl.DataFrame:
        return pl.DataFrame(rows, schema=SIMULATED, orient="row")

    with progress.steps("Figure 11, simulated", total) as told, keeping(frame):
        for case, last in cases.items():
            for count in sizes.workers:
                testbed = variant(count, bandwidth_mbps)
                job = job_of(testbed, model, batch_size, sizes.repeats)
                speeds = np.linspace(1.0, last, count).tolist()
                cluster = cluster_of(testbed, speeds)
                costs = [_at_speed(testbed.costs(model, batch_size), speed) for speed in speeds]
                wait_s = testbed.aggregation_s(profile_model(model))
                for planner in PLANNERS_OF_THE_PAPER:
                    told(f"{count} {case} workers, {planner.replace('_', ' ')}")
                    plans = [PLANNERS[planner](one) for one in costs]
                    programs = [worker(job, Fixed(plan)) for plan in plans]
                    programs += [server(job, position) for position in range(testbed.servers)]
                    run = simulate(cluster, programs, trace=True, progress=told.virtual)
                    ends_s = iteration_ends_s(_whole(run))
                    iteration_s = ends_s[-1] - ends_s[-2]
                    predicted_s = wait_s + max(
                        iteration(one, plan).total_s for one, plan in zip(costs, plans, strict=True)
                    )
                    samples_per_s = [count * batch_size / s for s in (iteration_s, predicted_s)]
                    speedup, predicted = (rate / testbed.speed(model) for rate in samples_per_s)
                    difference_percent = 100 * (speedup / predicted - 1)
                    setting = (model, batch_size, bandwidth_mbps, case, speeds[-1], count, planner)
                    rows.append((*setting, iteration_s, speedup, predicted, difference_percent))
    return frame()


SIMULATED = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "bandwidth_mbps": pl.Float64,
    "case": pl.String,
    "slowest": pl.Float64,
    "workers": pl.Int64,
    "planner": pl.String,
    "iteration_s": pl.Float64,
    "speedup": pl.Float64,
    "predicted_speedup": pl.Float64,
    "difference_percent": pl.Float64,
}


def _at_speed(costs: LayerCosts, speed: float) -> LayerCosts:
    """Costs of a worker that computes faster or slower."""
    forward_s, backward_s = costs.forward_s / speed, costs.backward_s / speed
    return LayerCosts(costs.pull_s, forward_s, backward_s, costs.push_s, costs.overhead_s)


def _whole(run: Run) -> Run:
    """Pass Ctrl-C on: half a simulation is no row of an experiment."""
    if run.interrupted:
        raise KeyboardInterrupt
    return run

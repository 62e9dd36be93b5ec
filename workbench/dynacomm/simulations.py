"""DynaComm on the simulated network: experiments of our own, and Fig. 11 once more.

Training here moves bytes and charges seconds, but computes no gradients; for learning see
`workbench.dynacomm.train`. All layers' times and bytes are those of the cost model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from workbench.clusters import Link, Schedule, star
from workbench.dynacomm.planners import PLANNERS
from workbench.dynacomm.profiling import Profile
from workbench.dynacomm.programs import Fixed, Planning, server, worker
from workbench.dynacomm.rates import Rate
from workbench.dynacomm.replanning import Clairvoyant, Replanned
from workbench.dynacomm.simulated_testbed import (
    cluster_of,
    iteration_ends_s,
    job_of,
    mobile,
    sawtooth,
)
from workbench.dynacomm.testbed import paper_testbed, variant
from workbench.names import choose
from workbench.runtime import Run, simulate

PLANNERS_OF_THE_PAPER = ("dynacomm", "ibatch", "layer_by_layer", "sequential")
POLICIES = ("static", "per_epoch", "per_iteration", "clairvoyant")


class Scale(NamedTuple):
    """How much of what can be made smaller is run."""

    iterations: int  # re-planning
    epoch: int  # iterations of one
    workers: Sequence[int]  # Fig. 11
    repeats: int  # iterations of Fig. 11, of which the last counts


SCALES = {
    "smoke": Scale(9, 3, (1, 2), 2),
    "default": Scale(80, 10, tuple(range(1, 9)), 2),
    "paper": Scale(780, 195, tuple(range(1, 9)), 5),
}
"""What each scale means for the simulations."""


def replanning(
    scale: str = "default", seed: int = 0, model: str = "resnet152", batch_size: int = 32
) -> pl.DataFrame:
    """Training over a link whose bandwidth changes, planned once, again and again, or knowingly.

    One worker and one server on the paper's testbed. In `step` the bandwidth halves at half time;
    in `sawtooth` it falls to a quarter and jumps back every two epochs; `mobile` is the synthetic
    trace of ``data/traces``, begun where the seed says. Every policy starts with DynaComm's plan
    for the first iteration's mean bandwidth; `static` keeps it, and the others plan from what has
    been observed since they last planned.

    Returns
    -------
    polars.DataFrame
        A row per scenario, policy and iteration: ``model, batch_size, scenario, policy,
        iteration`` (from 1), ``start_s, duration_s, bandwidth_mbps`` (mean over the iteration),
        ``transmissions`` (pulls and pushes).
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
    for scenario, schedule in scenarios.items():
        link = Link(schedule, overhead_s=testbed.link.overhead_s)
        job = job_of(replace(testbed, workers=1, servers=1), model, batch_size, sizes.iterations)
        start_bps = schedule.served(0, planned_s / sizes.iterations) / planned_s * sizes.iterations
        rate = Rate(link.overhead_s, start_bps)
        per_epoch, per_iteration = (
            Replanned(job, Profile.before(job, rate, window=every), every=every)
            for every in (sizes.epoch, 1)
        )
        policies: dict[str, Planning[Any]] = {
            "static": Fixed(per_epoch.begin()[1]),
            "per_epoch": per_epoch,
            "per_iteration": per_iteration,
            "clairvoyant": Clairvoyant(job, link, link),
        }
        for policy, planning in policies.items():
            programs = [worker(job, planning), server(job, 0)]
            run = _whole(simulate(star(1, 1, link), programs, trace=True))
            ends_s = [0.0, *iteration_ends_s(run)]
            for number, plan in enumerate(run.results[0].plans):
                start_s, end_s = ends_s[number], ends_s[number + 1]
                mean_mbps = schedule.served(start_s, end_s) / (end_s - start_s) / 1e6
                sent = len(plan.forward_cuts) + len(plan.backward_cuts) + 2
                about = (model, batch_size, scenario, policy)
                rows.append((*about, number + 1, start_s, end_s - start_s, mean_mbps, sent))
    return pl.DataFrame(
        rows,
        schema=[
            "model",
            "batch_size",
            "scenario",
            "policy",
            "iteration",
            "start_s",
            "duration_s",
            "bandwidth_mbps",
            "transmissions",
        ],
        orient="row",
    )


def replanning_gains(frame: pl.DataFrame) -> pl.DataFrame:
    """What each policy of `replanning` takes in all.

    Returns
    -------
    polars.DataFrame
        A row per scenario and policy: ``model, batch_size, scenario, policy, total_s``,
        ``gain_percent`` (time saved over static), ``gap_percent`` (time above clairvoyant).
    """

    def of(policy: str) -> pl.Expr:
        return pl.col("total_s").filter(pl.col("policy") == policy).first().over("scenario")

    keys = ["model", "batch_size", "scenario", "policy"]
    return (
        frame.group_by(keys, maintain_order=True)
        .agg(total_s=pl.col("duration_s").sum())
        .with_columns(
            gain_percent=100 * (1 - pl.col("total_s") / of("static")),
            gap_percent=100 * (pl.col("total_s") / of("clairvoyant") - 1),
        )
    )


def fig11_simulated(
    scale: str = "default",
    model: str = "resnet152",
    batch_size: int = 32,
    bandwidth_mbps: float = 10_000.0,
) -> pl.DataFrame:
    """Fig. 11 by simulation: all workers and servers, every message, shared interfaces.

    Returns
    -------
    polars.DataFrame
        A row per number of workers and planner: ``model, batch_size, bandwidth_mbps, workers,
        planner, iteration_s`` (the last one simulated), ``speedup``, ``predicted_speedup`` (the
        cost model's), ``difference_percent`` (simulated over predicted, minus one).
    """
    sizes, rows = choose("scale", scale, SCALES), []
    for count in sizes.workers:
        testbed = variant(count, bandwidth_mbps)
        job = job_of(testbed, model, batch_size, sizes.repeats)
        cluster = cluster_of(testbed)
        costs = testbed.costs(model, batch_size)
        for planner in PLANNERS_OF_THE_PAPER:
            plan = PLANNERS[planner](costs)
            programs = [worker(job, Fixed(plan)) for _ in job.workers]
            programs += [server(job, position) for position in range(testbed.servers)]
            ends_s = iteration_ends_s(_whole(simulate(cluster, programs, trace=True)))
            iteration_s = ends_s[-1] - ends_s[-2]
            speedup = count * batch_size / testbed.speed(model) / iteration_s
            predicted = testbed.speedup(model, batch_size, plan)
            difference_percent = 100 * (speedup / predicted - 1)
            setting = (model, batch_size, bandwidth_mbps, count, planner)
            rows.append((*setting, iteration_s, speedup, predicted, difference_percent))
    return pl.DataFrame(
        rows,
        schema=[
            "model",
            "batch_size",
            "bandwidth_mbps",
            "workers",
            "planner",
            "iteration_s",
            "speedup",
            "predicted_speedup",
            "difference_percent",
        ],
        orient="row",
    )


def _whole(run: Run) -> Run:
    """Pass Ctrl-C on: half a simulation is no row of an experiment."""
    if run.interrupted:
        raise KeyboardInterrupt
    return run

"""Figs. 10 and 11 and re-planning on the simulated network.

Fig. 10 learns; the others move bytes and charge seconds, but compute no gradients. All layers'
times and bytes are those of the cost model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from workbench.clusters import Cluster, Link, Node, Schedule, star
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.costs.iteration import LayerCosts, iteration
from workbench.dynacomm.paper.experiments import scales
from workbench.dynacomm.paper.testbed import BANDWIDTH_MBPS, Testbed, paper_testbed, variant
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.shards import split_evenly
from workbench.dynacomm.programs.worker_and_server import Fixed, Planning, server, worker
from workbench.dynacomm.replanning.mobile_trace import TRACE
from workbench.dynacomm.replanning.planning import Clairvoyant, Replanned
from workbench.dynacomm.replanning.profiling import Profile
from workbench.dynacomm.replanning.rates import Rate
from workbench.errors import UserError
from workbench.experiments import ExperimentInterrupted, data_set, grid, sweep, whole
from workbench.profiles import profile_model
from workbench.runtime import Run, simulate
from workbench.runtime.progress import Steps
from workbench.training import TrainingError

PLANNERS_OF_THE_PAPER = ("dynacomm", "ibatch", "layer_by_layer", "sequential")
POLICIES = ("static", "per_epoch", "per_iteration", "clairvoyant")


def job_of(testbed: Testbed, model: str, batch_size: int, iterations: int) -> Job:
    """Training of a model of the zoo on the testbed, every layer split over all servers."""
    profile = profile_model(model)
    return Job.of(
        profile,
        testbed.times(model, batch_size),
        testbed.link,
        shards=split_evenly(len(profile), testbed.servers),
        iterations=iterations,
        workers=testbed.workers,
        aggregation_s=testbed.aggregation_s(profile),
    )


def cluster_of(testbed: Testbed, speeds: Sequence[float] | None = None) -> Cluster:
    """Workers and servers of the testbed; their interfaces are shared, their links no narrower.

    `speeds` is one for each worker, 1 being the testbed's; all 1 by default.
    """
    rate_bps = testbed.bandwidth_mbps * 1e6 * testbed.constants.link_efficiency
    of_workers = [1.0] * testbed.workers if speeds is None else list(speeds)
    if len(of_workers) != testbed.workers:
        raise UserError(f"{len(of_workers)} speeds for {testbed.workers} workers; give one each")

    def nodes(kind: str, speeds: Sequence[float]) -> list[Node]:
        return [
            Node(f"{kind}{index}", speed=speed, uplink_bps=rate_bps, downlink_bps=rate_bps)
            for index, speed in enumerate(speeds)
        ]

    link = Link(rate_bps, overhead_s=testbed.link.overhead_s, tensor_s=testbed.link.tensor_s)
    return star(nodes("worker", of_workers), nodes("server", [1.0] * testbed.servers), link)


def iteration_ends_s(run: Run) -> list[float]:
    """When each iteration ended: all servers have stepped."""
    assert run.trace is not None
    steps = run.trace.frame.filter(pl.col("lane") == "step")
    ends = steps.group_by(pl.col("label").cast(pl.Int64)).agg(pl.col("end_s").max())
    return ends.sort("label")["end_s"].to_list()


def sawtooth(high_bps: float, low_bps: float, period_s: float, until_s: float) -> Schedule:
    """Fall in ten levels, jump back."""

    def level(at_s: float) -> float:
        fallen = int(at_s / period_s * 10 + 0.5) % 10 / 9
        return high_bps + (low_bps - high_bps) * fallen

    return Schedule.sampled(level, step_s=period_s / 10, end_s=until_s)


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
    "planned_every": pl.Int64,
    "epoch_iterations": pl.Int64,
    "iteration": pl.Int64,
    "start_s": pl.Float64,
    "duration_s": pl.Float64,
    "bandwidth_mbps": pl.Float64,
    "transmissions": pl.Int64,
}


def replanning(
    scale: str = "default", seed: int = 1, model: str = "resnet152", batch_size: int = 32
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
        "iterations": scales.ITERATIONS.at(scale),
        "epoch_iterations": scales.EPOCH_ITERATIONS.at(scale),
    }
    points = grid(scenario=("step", "sawtooth", "mobile"), policy=POLICIES)
    return sweep("Re-planning", _replanned, points, REPLANNED, shared=shared)


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
    testbed = replace(paper_testbed(), workers=1, servers=1)
    costs = paper_testbed().costs(model, batch_size)
    computed_s = iterations * float(costs.forward_s.sum() + costs.backward_s.sum())
    first_s = computed_s / iterations
    schedule = _bandwidth(scenario, computed_s, first_s * epoch_iterations, seed)
    link = Link(schedule, overhead_s=paper_testbed().link.overhead_s)
    job = job_of(testbed, model, batch_size, iterations)
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
    programs = [worker(job, planning), server(job, 0)]
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
    if scenario == "sawtooth":
        return sawtooth(full_bps, full_bps / 4, 2 * epoch_s, until_s=4 * computed_s)
    return mobile(seed, until_s=4 * computed_s)


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


SLOWEST = 0.6
"""Speed of the slowest worker where they are unequal; the fastest computes at speed 1."""

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


def fig11_simulated(
    scale: str = "default",
    model: str = "resnet152",
    batch_size: int = 32,
    bandwidth_mbps: float = BANDWIDTH_MBPS,
    slowest: float = SLOWEST,
) -> pl.DataFrame:
    """Fig. 11 by simulation: all workers and servers, every message, shared interfaces.

    Once with equal workers, as the paper's are, and once with speeds that fall evenly from 1 to
    `slowest`. Every worker plans for its own speed and a fair share of the servers' interfaces.

    A row per case (``equal``, ``unequal``), number of workers and planner: ``model, batch_size,
    bandwidth_mbps, case, slowest`` (speed of the slowest worker), ``workers, planner, iteration_s``
    (the last one simulated), ``speedup`` (over a worker of speed 1 without a network),
    ``predicted_speedup`` (the cost model's), ``difference_percent`` (simulated over predicted,
    minus one).

    Raises
    ------
    ValueError
        `slowest` is not above 0 and at most 1.

    Notes
    -----
    The cost model knows one worker with its fair share of the bandwidth at all times. Equal workers
    transfer in lockstep, and that is what they get. Of unequal ones the slowest decides, by the
    model; in the simulation it transfers alone when the others are done.
    """
    if not 0 < slowest <= 1:
        raise UserError(f"slowest is {slowest}; it is a speed above 0 and at most 1")
    points = [
        {"case": case, "last": last, **point}
        for case, last in (("equal", 1.0), ("unequal", slowest))
        for point in grid(workers=scales.WORKERS.at(scale), planner=PLANNERS_OF_THE_PAPER)
    ]
    shared = {
        "model": model,
        "batch_size": batch_size,
        "bandwidth_mbps": bandwidth_mbps,
        "iterations": scales.SIMULATED_ITERATIONS.at(scale),
    }
    return sweep("Figure 11, simulated", _simulated, points, SIMULATED, shared=shared)


def _simulated(
    *,
    workers: int,
    planner: str,
    last: float,
    model: str,
    batch_size: int,
    bandwidth_mbps: float,
    iterations: int,
    steps: Steps,
    **_: object,
) -> dict[str, float]:
    testbed = variant(workers, bandwidth_mbps)
    job = job_of(testbed, model, batch_size, iterations)
    speeds = np.linspace(1.0, last, workers).tolist()
    own, costs = testbed.costs(model, batch_size), list[LayerCosts]()
    for speed in speeds:
        forward_s, backward_s = own.forward_s / speed, own.backward_s / speed
        costs.append(LayerCosts(own.pull_s, forward_s, backward_s, own.push_s, own.overhead_s))
    plans = [PLANNERS[planner](one) for one in costs]
    programs = [worker(job, Fixed(plan)) for plan in plans]
    programs += [server(job, position) for position in range(testbed.servers)]
    cluster = cluster_of(testbed, speeds)
    run = whole(simulate(cluster, programs, trace=True, progress=steps.virtual))
    ends_s = iteration_ends_s(run)
    iteration_s = ends_s[-1] - ends_s[-2]
    predicted_s = testbed.aggregation_s(profile_model(model)) + max(
        iteration(one, plan).total_s for one, plan in zip(costs, plans, strict=True)
    )
    samples_per_s = [workers * batch_size / s for s in (iteration_s, predicted_s)]
    speedup, predicted = (rate / testbed.speed(model) for rate in samples_per_s)
    return {
        "slowest": speeds[-1],
        "iteration_s": iteration_s,
        "speedup": speedup,
        "predicted_speedup": predicted,
        "difference_percent": 100 * (speedup / predicted - 1),
    }


TRAINED_BATCH = 16  # of each worker; of 32 the images of scale default make too few iterations

LEARNT = {
    "model": pl.String,
    "dataset": pl.String,
    "train_samples": pl.Int64,
    "test_samples": pl.Int64,
    "workers": pl.Int64,
    "planner": pl.String,
    "reason": pl.String,
    "epoch": pl.Int64,
    **dict.fromkeys(
        ("at_s", "loss", "train_top1", "train_top5", "top1", "top5", "predicted_s"), pl.Float64
    ),
    "difference_percent": pl.Float64,
}


def fig10(
    scale: str = "default", seed: int = 1, dataset: str = "auto", workers: int = 2
) -> pl.DataFrame:
    """Accuracy by epoch, trained under DynaComm's plan and under the sequential one.

    The network stays as it is and both plans are made once, so that the cost model predicts when
    each epoch ends.

    Deviation: a ResNet-20 instead of a ResNet-152, at ``default`` LeNet-5; below scale ``paper``
    other data than CIFAR-10. What is claimed, equality, depends on neither.

    Columns ``model, dataset, train_samples, test_samples, workers, planner, reason, epoch, at_s``
    (virtual), ``loss, train_top1, train_top5, top1, top5, predicted_s`` (the cost model's `at_s`),
    ``difference_percent`` (simulated over predicted, minus one). A training that diverged is one
    row with its ``reason``.

    Parameters
    ----------
    scale, seed, workers
        How much is trained, on which draw of samples, by how many.
    dataset
        As for `workbench.experiments.data_set`.

    Raises
    ------
    ExperimentInterrupted
        Ctrl-C; its `frame` has the finished epochs.
    DatasetError
        The data is neither here nor to be had; no other is taken in its place.
    """
    shared = {
        "model": scales.TRAINED.at(scale),
        "samples": scales.SAMPLES.at(scale),
        "epochs": scales.EPOCHS.at(scale),
        "source": data_set(scale, "cifar10", dataset),
        "seed": seed,
        "workers": workers,
    }
    points = grid(planner=("sequential", "dynacomm"))
    return sweep("Figure 10", _learnt, points, LEARNT, shared=shared, failures=TrainingError)


def _learnt(
    *,
    planner: str,
    model: str,
    source: str,
    samples: int | None,
    epochs: int,
    seed: int,
    workers: int,
    steps: Steps,
) -> pl.DataFrame:
    from workbench import datasets, training
    from workbench.dynacomm.training import Setup, train

    data = datasets.load(source).limit(train=samples, test=samples, seed=seed)
    setup = Setup(
        model,
        data.fitted((3, 32, 32)),
        Link(bandwidth_bps=50e6, overhead_s=0.01),
        workers=workers,
        servers=2,
        epochs=epochs,
        batch_size=TRAINED_BATCH,
        seed=seed,
    )
    of_epoch = training.batches(setup.dataset, setup.batch_size, seed, epoch=0, workers=workers)
    epoch_s = len(of_epoch) * iteration(setup.costs, PLANNERS[planner](setup.costs)).total_s
    progress = steps.until(setup.epochs * epoch_s)
    trained = train(setup, planner, replan_every=None, progress=progress)
    predicted_s = pl.col("epoch") * epoch_s
    frame = trained.epochs.with_columns(
        model=pl.lit(setup.model),
        dataset=pl.lit(data.name),
        train_samples=len(data.y_train),
        test_samples=len(data.y_test),
        predicted_s=predicted_s,
        difference_percent=100 * (pl.col("at_s") / predicted_s - 1),
    )
    if trained.run.interrupted:
        raise ExperimentInterrupted(frame)
    return frame

"""Figs. 10 and 11 and an experiment of our own, simulated; Table II, measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from workbench import datasets, figures
from workbench.clusters import Link, Schedule, star
from workbench.dynacomm.costs import LayerCosts, Plan, iteration
from workbench.dynacomm.paper.cost_model import WORKERS_AXIS
from workbench.dynacomm.paper.testbed import (
    BANDWIDTH_MBPS,
    MODELS,
    iteration_ends_s,
    paper_testbed,
    variant,
)
from workbench.dynacomm.paper.titles import (
    PLANNER_TITLES,
    agreement,
    line_order,
    model_title,
    titled,
)
from workbench.dynacomm.planners import PLANNERS, dynacomm
from workbench.dynacomm.profiler import EPOCH, Line, Profile, Replanning, planning_s
from workbench.dynacomm.programs import FixedPlan, Job, Policy, Server, Worker
from workbench.figures import parts
from workbench.profiles import measure_layer_times
from workbench.reproduction.claims import Answer, Cause, paper_value
from workbench.reproduction.data import data_set
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import ExperimentInterrupted, grid, sweep, whole
from workbench.runtime import Program, simulate
from workbench.runtime.progress import Steps
from workbench.training import TrainingError, batches
from workbench.utils import files
from workbench.utils.checks import UserError, check_whole
from workbench.utils.numbers import link_rate

# Fig. 10: accuracy is untouched by the plan.

TRAINED_BATCH = 16  # of each worker; of 32 the images of scale default make too few iterations
TRAINED_SERVERS = 2
TRAINED_LINK = Link(bandwidth_bps=50e6, overhead_s=0.01)

MEASURES = {
    "train_top1": "training, top-1",
    "train_top5": "training, top-5",
    "top1": "validation, top-1",
    "top5": "validation, top-5",
}

ACCURACIES = {
    **dict.fromkeys(("model", "dataset"), pl.String),
    **dict.fromkeys(("train_samples", "test_samples", "workers"), pl.Int64),
    **dict.fromkeys(("planner", "reason"), pl.String),
    "epoch": pl.Int64,
    **dict.fromkeys(("at_s", "loss", *MEASURES, "predicted_s", "difference_percent"), pl.Float64),
}


def accuracies(
    *,
    scale: str,
    model: str,
    samples: int | None,
    usual_epochs: int,
    seed: int = 1,
    dataset: str = "auto",
    workers: int = 2,
    epochs: int | None = None,
    processes: int | None = 1,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Accuracy by epoch, trained under DynaComm's plan and under the sequential one.

    `epochs` are by default the scale's `usual_epochs`; `samples` of the data set are drawn by the
    seed, None are all. Both plans are made once, so that the cost model predicts in ``predicted_s``
    when each epoch ends. A training that diverged is one row with its ``reason``.

    Deviation: a ResNet-20 instead of a ResNet-152, at ``default`` LeNet-5; below scale ``paper``
    other data than CIFAR-10; few workers on slow links of their own. What is claimed, equality,
    depends on none of them.
    """
    shared = {
        "model": model,
        "samples": samples,
        "epochs": usual_epochs if epochs is None else check_whole("epochs", epochs, 1),
        "source": data_set(scale, "cifar10", dataset),
        "seed": seed,
        "workers": workers,
    }
    return sweep(
        _trained,
        grid(planner=("sequential", "dynacomm")),
        ACCURACIES,
        title="Figure 10",
        shared=shared,
        with_steps=True,
        failures=TrainingError,
        processes=processes,
        folder=folder,
    )


def _trained(
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
    from workbench.dynacomm.training import Setup, train

    data = datasets.load(source).limit(train=samples, test=samples, seed=seed)
    setup = Setup(
        model,
        data.fitted((3, 32, 32)),
        TRAINED_LINK,
        epochs=epochs,
        workers=workers,
        servers=TRAINED_SERVERS,
        batch_size=TRAINED_BATCH,
        seed=seed,
    )
    of_epoch = batches(setup.dataset, setup.batch_size, seed, epoch=0, workers=workers)
    epoch_s = len(of_epoch) * iteration(setup.costs, PLANNERS[planner](setup.costs)).total_s
    progress = steps.until(epochs * epoch_s)
    trained = train(setup, planner, replan_every=None, progress=progress)
    predicted_s = pl.col("epoch") * epoch_s
    frame = trained.epochs.with_columns(
        model=pl.lit(model),
        dataset=pl.lit(data.name),
        train_samples=len(data.y_train),
        test_samples=len(data.y_test),
        predicted_s=predicted_s,
        difference_percent=100 * (pl.col("at_s") / predicted_s - 1),
    )
    if trained.run.interrupted:
        raise ExperimentInterrupted(frame)
    return frame


def draw_accuracies(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy by epoch: DynaComm's points on the sequential plan's lines."""
    ended, left_out = parts.trained(frame)
    drawn = (
        titled(ended)
        .unpivot(on=list(MEASURES), index=["planner", "epoch"], variable_name="measure")
        .with_columns(pl.col("measure").replace_strict(MEASURES), percent=pl.col("value") * 100)
    )
    planners = [PLANNER_TITLES[name] for name in ("sequential", "dynacomm")]
    base = alt.Chart(drawn).encode(
        x=alt.X("epoch:Q", axis=alt.Axis(tickMinStep=1, format="d")),
        y=parts.accuracy("accuracy, %"),
        color=parts.colour("planner", planners),
    )
    lines = base.mark_line(strokeWidth=3).transform_filter(alt.datum.planner == planners[0])
    points = base.mark_point(filled=True, size=40).transform_filter(
        alt.datum.planner == planners[1]
    )
    last = ended.sort("epoch").group_by("planner", maintain_order=True).last()
    rate_mbps = TRAINED_LINK.bandwidth_bps / 1e6  # type: ignore[operator]
    title = [
        f"{model_title(ended)} on {datasets.title(ended['dataset'][0])}",
        parts.samples(ended),
        f"{ended['workers'][0]} workers, {TRAINED_SERVERS} servers, "
        f"{link_rate(rate_mbps)} (simulated)",
        agreement(last),
        *left_out,
    ]
    panel = alt.layer(lines, points).properties(height=110)
    return parts.facets(panel, "measure", list(MEASURES.values()), title)


def _accuracy(frame: pl.DataFrame) -> Answer:
    """Largest difference, in points, between the two planners' accuracies at any epoch."""
    ours, theirs = (
        frame.filter(planner=planner).sort("epoch").select(*MEASURES).to_numpy()
        for planner in ("dynacomm", "sequential")
    )
    if failed := frame.drop_nulls("reason")["planner"].to_list():
        return Answer(not_run=f"trains under {' and '.join(failed)}, which failed")
    data = f" of {frame['dataset'][0]}" if "dataset" in frame.columns else ""
    return Answer(float(100 * abs(ours - theirs).max()), f"{len(ours)} epochs{data}, simulated")


FIG10 = Figure(
    id="fig10",
    compute=accuracies,
    chart=draw_accuracies,
    sizes={
        "model": Scaled(smoke="resnet20_cifar", default="lenet5_cifar", paper="resnet20_cifar"),
        "samples": Scaled(smoke=64, default=2000, paper=None),
        "usual_epochs": Scaled(smoke=1, default=6, paper=200),
    },
    answers={"dynacomm.fig10.accuracy": _accuracy},
    recorded=True,
    data=("cifar10",),
    judged_by_accuracy=False,  # only that two are equal
    live=True,
)


# Fig. 11 by simulation: training speed by the number of workers.

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
    slowest: float = SLOWEST,
    processes: int | None = 1,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Fig. 11 by simulation: all workers and servers, every message, shared interfaces.

    Once with ``equal`` workers, as the paper's are, and once ``unequal``, with speeds that fall
    evenly from 1 to `slowest`. Every worker plans for its own speed and a fair share of the
    servers' interfaces. ``speedup`` is over a worker of speed 1 without a network, in the last
    iteration; ``predicted_speedup`` the cost model's.

    Equal workers transfer in lockstep, and so get the fair share that the cost model assumes. Of
    unequal ones the slowest decides, by the model; simulated, it transfers alone when the others
    are done.
    """
    if not 0 < slowest <= 1:
        raise UserError(f"slowest is {slowest}; it is a speed above 0 and at most 1")
    points = [
        {"case": case, "last": last, **point}
        for case, last in (("equal", 1.0), ("unequal", slowest))
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
    ends_s = iteration_ends_s(run)
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
    drawn = titled(frame).with_columns(pl.col("case").replace_strict(cases))
    base = alt.Chart(drawn).encode(x=WORKERS_AXIS, color=encoded["color"])
    simulated = base.mark_line().encode(
        y=alt.Y("speedup:Q", title="speed-up over one worker alone"),
        strokeDash=encoded["strokeDash"],
    )
    predicted = base.mark_point(size=40).encode(y="predicted_speedup:Q", shape=encoded["shape"])
    title = [
        f"{model_title(frame)}: speed-up by number of workers",
        f"batch {frame['batch_size'][0]}, {link_rate(frame['bandwidth_mbps'][0])}, "
        "lines simulated, points cost model",
        agreement(frame),
    ]
    return (
        alt.layer(simulated, predicted)
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


# Planning again while the bandwidth changes: an experiment of our own, simulated.

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


# Table II: what profiling costs on this machine.

PROFILING_COSTS = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "layers": pl.Int64,
    **dict.fromkeys(("layers_s", "iteration_s", "ratio", "iteration_iqr_s"), pl.Float64),
    "within_15_percent": pl.Boolean,
    "loss_percent": pl.Float64,
}


def profiling_costs(
    batch_sizes: Mapping[str, int], repeats: int, folder: Path | None = None
) -> pl.DataFrame:
    """What profiling costs on this machine: layers timed one by one against whole iterations.

    The two take turns, so that what else the machine does hits both. A row per model: ``layers_s``
    is the sum of all layers, with a clock between them, ``iteration_s`` an iteration without, with
    its interquartile range, ``ratio`` that of the two, ``loss_percent`` that of training speed.
    """
    points = [{"model": model, "batch_size": size} for model, size in batch_sizes.items()]
    return sweep(
        _profiled,
        points,
        PROFILING_COSTS,
        title="Table II",
        shared={"repeats": repeats},
        with_steps=True,
        folder=folder,
    )


def _profiled(*, model: str, batch_size: int, repeats: int, steps: Steps) -> dict[str, object]:
    times = measure_layer_times(
        model,
        batch_size=batch_size,
        repeats=repeats,
        progress=lambda _, done, total: steps.within(f"{done} of {total} iterations"),
    )
    ratio = times.layers_over_iteration or math.nan
    return {
        "layers": len(times),
        "layers_s": times.forward_s + times.backward_s,
        "iteration_s": times.iteration_s,
        "ratio": ratio,
        "iteration_iqr_s": times.iteration_iqr_s,
        "within_15_percent": abs(ratio - 1) <= 0.15,
        "loss_percent": 100 * (1 - 1 / ratio),
    }


_WAITING = Answer(not_run="profiles the paper's four models at default scale")


def _worst_loss(frame: pl.DataFrame) -> Answer:
    rows = frame.filter(pl.col("model").is_in(MODELS)).sort("loss_percent")
    if len(rows) < len(MODELS):
        return _WAITING
    worst = rows.row(-1, named=True)
    return Answer(worst["loss_percent"], f"{worst['model']}, on this machine", timed=True)


def _profiled_speed(model: str, frame: pl.DataFrame) -> Answer:
    """The paper's speed without profiling, less what profiling costs here."""
    rows = frame.filter(model=model)
    if rows.is_empty():
        return _WAITING
    row = rows.row(0, named=True)
    speed = paper_value(f"dynacomm.table2.{model}.off") / row["ratio"]
    return Answer(speed, f"the paper's speed at our loss, batch {row['batch_size']}", timed=True)


_MEASURED = ("vgg19", "resnet50", "googlenet", "inception_v4", "resnet152")

TABLE2 = Figure(
    id="table2",
    compute=profiling_costs,
    sizes={
        "batch_sizes": Scaled(
            smoke={"lenet5": 2},
            default=dict(zip(_MEASURED, (2, 4, 4, 1, 1), strict=True)),
            paper=dict(zip(_MEASURED, (8, 8, 32, 32, 32), strict=True)),
        ),
        "repeats": Scaled(smoke=3, default=3, paper=3),
    },
    answers={
        "dynacomm.table2.loss": _worst_loss,
        **{f"dynacomm.table2.{model}.on": partial(_profiled_speed, model) for model in MODELS},
    },
    causes={
        "dynacomm.table2.loss": Cause(
            "noise",
            "iterations of the same model differ by more than the bar on this machine (see "
            "iteration_iqr_s), and the clock between layers costs less than they differ",
        ),
    },
    recorded=True,
)

"""Explorer of pipelines: a step's timeline with its bubble, and its rate beside one node's."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Annotated, Any

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import figures
from workbench.clusters import Link
from workbench.figures import parts
from workbench.pipelines import problems
from workbench.pipelines.longest_path import iteration, timeline
from workbench.pipelines.problems import Problem
from workbench.pipelines.schedules import Plan, Stage
from workbench.profiles import LayerTimes, profile_model
from workbench.reproduction.parameters import PARAMETERS, Parameter, Parameters
from workbench.utils.numbers import percent
from workbench.widgets import Shared, Slider

GFLOPS = 9000.0
OVERHEAD_S = 200e-6

ORDERS = ("1f1b", "1f1b, deeper", "gpipe")
"""Schedules; the deeper one keeps 2 (S - s) - 1 micro-batches in flight (Ye et al. 2024)."""

NEAR = 4
"""Layers behind which a cut between stages is considered."""

PASSES = ("forward", "backward", "update")


@dataclass(frozen=True, kw_only=True)
class Setting(Parameters):
    """Parameters with their sliders."""

    model: Annotated[str, PARAMETERS["model"]] = "gpt2"
    bandwidth_mbps: Annotated[float, Slider(100, 40_000, scale="log", label="bandwidth")] = 10_000.0
    batch_size: Annotated[int, Slider(2, 32, step=2)] = 16
    microbatches: Annotated[
        int,
        Parameter("micro-batches of a step; at most the batch", low=1, high=32),
        Slider(1, 32, scale="log", step=2),
    ] = 8
    workers: Annotated[int, Slider(2, 8, label="nodes")] = 4
    schedule: Annotated[str, Parameter("order of passes on a node", options=lambda: ORDERS)] = (
        "1f1b"
    )


SHARED = Shared(
    "A pipeline: one step of training",
    f"Equal nodes of {GFLOPS:,.0f} GFLOP/s, each with consecutive layers of about the same time, "
    "cut where little crosses. "
    "The timeline shows one step: forward and backward passes of micro-batches, messages "
    "between neighbours, and the bubble, in which nodes wait. Layers that share a weight are on "
    "one node. The bars compare the rate with that of one node, by number of micro-batches.",
    {
        "model": ("gpt2", "vgg16", "resnet152"),
        "bandwidth_mbps": (100.0, 940.0, 10_000.0, 40_000.0),
        "batch_size": (8, 16, 32),
        "microbatches": (1, 2, 4, 8, 16),
        "workers": (2, 4, 8),
        "schedule": ORDERS,
    },
)


def problem_of(setting: Setting) -> Problem:
    """Problem of the model on equal nodes that are linked with each other."""
    profile, nodes = profile_model(setting.model), setting.workers
    times = LayerTimes.from_flops(profile, flops_per_s=GFLOPS * 1e9, batch_size=1)
    link = Link(setting.bandwidth_mbps * 1e6, overhead_s=OVERHEAD_S)
    links = dict.fromkeys(permutations(range(nodes), 2), link)
    return problems.problem_of(profile, [times] * nodes, links, setting.batch_size)


def balanced(problem: Problem, microbatches: int, schedule: str) -> Plan:
    """Plan with stages of about the same time, one on each node.

    Layers up to the first use of a weight that a later layer shares are a stage of their own, on
    the last node. So no gradient of a shared weight is sent.
    """
    samples = problem.batch // microbatches
    seconds = (problem.forward_s + problem.backward_s)[0]
    head = max((weight.layers[0] for weight in problem.tied), default=0)
    ends = np.cumsum(seconds[head:])
    shares = ends[-1] * np.arange(1, problem.nodes) / problem.nodes
    cuts = sorted({_cheapest(problem, head, np.abs(ends - share)) for share in shares})
    bounds = [head, *(cut for cut in cuts if head < cut < problem.layers), problem.layers]
    spans = [(first + 1, last) for first, last in pairwise(bounds)]
    stages = [Stage(*span, ((node, samples),)) for node, span in enumerate(spans)]
    if head:
        stages.insert(0, Stage(1, head, ((len(spans) - 1, samples),)))
    steps = 2 if schedule == "1f1b, deeper" else 1
    depths = [steps * behind + 1 for behind in range(len(spans) - 1, -1, -1)]
    if head:
        depths.insert(0, microbatches)  # the last node sends ahead where it would wait
    return Plan(
        stages=tuple(stages),
        microbatches=microbatches,
        schedule=schedule.split(",", maxsplit=1)[0],
        in_flight=tuple(min(depth, microbatches) for depth in depths),
    )


def _cheapest(problem: Problem, head: int, distances_s: NDArray[np.float64]) -> int:
    """Last layer of a stage: of the `NEAR` nearest to its share, the one with the fewest bytes."""
    nearest = head + 1 + np.argsort(distances_s, kind="stable")[:NEAR]
    return int(min(nearest.tolist(), key=lambda layer: problem.output_bytes[layer - 1]))


def counts(batch: int, most: int) -> list[int]:
    """Numbers of equal micro-batches of a batch that are powers of two, up to `most`."""
    powers = (2**power for power in range(most.bit_length()))
    return [count for count in powers if batch % count == 0]


def table(setting: Setting) -> pl.DataFrame:
    """Rows of ``microbatches, schedule, step_s, samples_per_s, bubble, over_one_node``."""
    problem = problem_of(setting)
    one_s = float(problem.batch * (problem.forward_s + problem.backward_s)[0].sum())
    one_s += float(problem.update_s[0].sum())
    rows = []
    for schedule in ORDERS:
        for count in counts(problem.batch, problem.batch):
            step = iteration(problem, balanced(problem, count, schedule))
            rate = problem.batch / step.total_s
            rows.append((count, schedule, step.total_s, rate, step.bubble, one_s / step.total_s))
    columns = ["microbatches", "schedule", "step_s", "samples_per_s", "bubble", "over_one_node"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def draw(setting: Setting) -> dict[str, Any]:
    """Draw one step as a timeline, and rates over that of one node by number of micro-batches."""
    problem, rates = problem_of(setting), table(setting)
    count = counts(setting.batch_size, setting.microbatches)[-1]
    plan = balanced(problem, count, setting.schedule)
    chosen = rates.row(
        by_predicate=(pl.col("microbatches") == count) & (pl.col("schedule") == setting.schedule),
        named=True,
    )
    title = [
        f"{setting.model} in {len(plan.stages)} stages, {count} micro-batches of {plan.samples}, "
        f"{setting.schedule}",
        f"{chosen['step_s']:.3g} s a step, nodes wait for {percent(chosen['bubble'])} of it; "
        f"{chosen['over_one_node']:.3g} x one node (cost model)",
    ]
    bars = (
        alt.Chart(rates)
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "microbatches:Q",
                title="micro-batches of a step",
                scale=alt.Scale(base=2, type="log"),
            ),
            y=alt.Y("over_one_node:Q", title="rate, x one node", scale=alt.Scale(zero=True)),
            **figures.series("schedule", list(ORDERS)),
        )
        .properties(height=110)
    )
    return figures.stacked(
        passes(timeline(problem, plan).frame),
        bars,
        title=title,
        independent=("color", "shape", "strokeDash"),
    )


def passes(frame: pl.DataFrame) -> alt.Chart:
    """Draw a row for each node: its passes, and the bubble between them."""
    chart: alt.Chart = (
        alt.Chart(frame.filter(pl.col("lane").is_in(PASSES)))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("start_s:Q", title="seconds of a step"),
            x2="end_s:Q",
            y=alt.Y("node:N", title=None),
            color=parts.colour("lane", PASSES),
            tooltip=["node:N", "label:N", "start_s:Q", "end_s:Q"],
        )
        .properties(height={"step": 24})
    )
    return chart

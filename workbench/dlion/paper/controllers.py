"""Figs. 6, 8, 19 and 20: what DLion's controllers decide while it trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.clusters.schedule import Schedule
from workbench.dlion.algorithms.global_batch import CONSTANT
from workbench.dlion.costs.environments import ENVIRONMENTS, Environment
from workbench.dlion.paper.cases import AT_DEFAULT, LEARNING, Case, Learning, system_of
from workbench.dlion.paper.charts import WORKERS
from workbench.dlion.paper.testbed import STATED, paper_testbed
from workbench.dlion.training import Trained, train
from workbench.figures import parts
from workbench.profiles import profile_model
from workbench.reproduction.claims import Answer, Cause, paper_values
from workbench.reproduction.figure import Figure, JointClaims
from workbench.reproduction.sweep import sweep
from workbench.reproduction.trainings import slashed

# --- Trainings ------------------------------------------------------------------------------------

BATCHES: dict[str, Any] = {
    "at_s": pl.Float64,
    **dict.fromkeys(("node", "iteration", "samples", "global_batch"), pl.Int64),
    "cores": pl.Float64,
    "stands_for": pl.Float64,
}
LINKS: dict[str, Any] = {
    "at_s": pl.Float64,
    **dict.fromkeys(("source", "target", "iteration"), pl.Int64),
    **dict.fromkeys(("percent", "mbps"), pl.Float64),
}
Rows = list[dict[str, Any]]


def batches(*, where: Environment, learning: Learning, seed: int, grows: bool) -> Rows:
    """Local and global batches, in samples of the paper's, and cores then."""
    learner = learning.learner
    factor = learner.sample_stands_for / learner.stands_for
    rows = _trained(where, learning, seed, grows).iterations.with_columns(
        (pl.col("samples", "global_batch") * factor).cast(pl.Int64),
        stands_for=pl.lit(learner.stands_for),
    )
    cores = [Schedule.of(worker) for worker in where.cores]
    return [{**row, "cores": cores[row["node"]].at(row["at_s"])} for row in rows.to_dicts()]


def links(*, where: Environment, learning: Learning, seed: int, grows: bool) -> Rows:
    """Sent bytes, in percent of the whole gradient's, and the receiver's bandwidth then."""
    learner = learning.learner  # what it sends stands for several messages
    whole_bytes = profile_model(learner.model).param_bytes * learner.stands_for
    sent = _trained(where, learning, seed, grows).transfers.filter(topic="gradient")
    rows = sent.with_columns(percent=100 * pl.col("bytes") / whole_bytes)
    mbps = [Schedule.of(worker) for worker in where.mbps]
    return [{**row, "mbps": mbps[row["target"]].at(row["at_s"])} for row in rows.to_dicts()]


def _trained(where: Environment, learning: Learning, seed: int, grows: bool) -> Trained:
    data = learning.data
    system = system_of(Case(), learning, len(data.y_train))
    if not grows and system.batching is not None:
        system = replace(system, batching=replace(system.batching, growth=CONSTANT))
    setup = paper_testbed().setup(
        learning.learner,
        data,
        where,
        seconds=learning.seconds,
        seed=seed,
        evaluate_every=10**6,
    )
    return train(setup, system)


def decided(
    title: str,
    measure: Callable[..., Rows],
    where: Environment,
    seconds: float,
    grows: bool,
    *,
    scale: str,
    learning: Learning,
    seed: int = 1,
    dataset: str = "auto",
    folder: Path | None = None,
) -> pl.DataFrame:
    """Rows of a training of DLion, whose global batch grows or stays."""
    shared = {
        "where": where,
        "learning": learning.of(scale, dataset)._replace(seconds=seconds),
        "seed": seed,
        "grows": grows,
    }
    schema = BATCHES if measure is batches else LINKS
    return sweep(measure, [{}], schema, title=title, shared=shared, folder=folder)


# --- Charts ---------------------------------------------------------------------------------------

SECONDS_AXIS = alt.X("at_s:Q", title="virtual seconds")


def draw_batches(subject: str, stated: str, frame: pl.DataFrame) -> alt.VConcatChart:
    """Local batch sizes over time, and the cores; rings at the seconds of claims like `stated`."""
    drawn = frame.with_columns(worker=pl.format("worker {}", "node"))
    colour = parts.colour("worker", WORKERS)
    steps = alt.Chart(drawn).mark_line(interpolate="step-after")
    base = steps.encode(x=SECONDS_AXIS, color=colour)
    upper = base.encode(y=alt.Y("samples:Q", title="local batch, samples"))
    lower = base.encode(y=alt.Y("cores:Q", title="cores"))
    times = paper_values(stated)
    rings = parts.paper_rings(alt.Chart(times), x="paper:Q", y=alt.value("height"))
    title = [
        subject,
        "sizes are the paper's (simulated)",
        *parts.rings_title(times, "where the global batch grows, by the paper"),
    ]
    upper = (upper + rings).properties(height=150)
    return alt.vconcat(upper, lower.properties(height=70), title=title)


def draw_links(frame: pl.DataFrame) -> alt.Chart:
    """Draw the bytes that worker 0 sends over links of different bandwidth."""
    drawn = frame.filter(source=0).with_columns(
        link=pl.format("to worker {}: {} Mbit/s", "target", pl.col("mbps").cast(pl.Int64))
    )
    title = ["What worker 0 sends its peers", "Hetero NET A (simulated)"]
    return _draw_sizes(drawn).properties(title=title)


def draw_changing_bandwidth(frame: pl.DataFrame) -> alt.VConcatChart:
    """Draw the bytes that worker 0 sends while bandwidth changes."""
    drawn = frame.filter(source=0).with_columns(link=pl.format("to worker {}", "target"))
    steps = alt.Chart(drawn).mark_line(interpolate="step-after", color=parts.GREY)
    mbps = steps.encode(x=SECONDS_AXIS, y=alt.Y("mbps:Q", title="Mbit/s")).properties(height=60)
    title = ["What worker 0 sends while bandwidth changes", "(simulated)"]
    return alt.vconcat(_draw_sizes(drawn), mbps, title=title)


def _draw_sizes(drawn: pl.DataFrame) -> alt.Chart:
    names = drawn.sort("target")["link"].unique(maintain_order=True).to_list()
    size = alt.Y("percent:Q", title="of the whole gradient's bytes, %")
    lines = alt.Chart(drawn).mark_line()
    chart: alt.Chart = lines.encode(x=SECONDS_AXIS, y=size, **figures.series("link", names))
    return chart.properties(height=150)


# --- Answers --------------------------------------------------------------------------------------

PROPORTIONAL = 1.25
"""Sizes per Mbit/s that differ by at most this factor are proportional."""

LEAST_ITERATIONS = 20
"""In fewer, at scale ``smoke``, hardly any worker times batches again after cores have changed."""

STEPS = ("first", "second", "third")
"""Steps of the global batch whose seconds Fig. 6 states."""


def _local_batches(fig6: pl.DataFrame, fig19: pl.DataFrame) -> Answer:
    """Whether sizes sum to the global batch, and rise with cores by the time these change again.

    Batches are timed again some iterations after cores have changed. An iteration at whose
    beginning some workers' cores have changed and others' not belongs to neither.
    """
    if max(fig19["iteration"]) < LEAST_ITERATIONS:
        return Answer(not_run="takes iterations with each number of cores, as at default scale")
    both = pl.concat([fig6.with_columns(of=pl.lit(6)), fig19.with_columns(of=pl.lit(19))])
    iterations = both.group_by("of", "iteration").agg(
        pl.col("samples", "cores").sort_by("node"), pl.col("global_batch").max(), pl.len()
    )
    whole = iterations.filter(pl.col("len") == both["node"].n_unique()).sort("of", "iteration")
    sums = whole["samples"].list.sum()
    off = sum(abs(a - b) for a, b in zip(sums, whole["global_batch"], strict=True))
    here = pl.struct("of", "cores")
    last = whole.filter(here.eq_missing(here.shift(1)) & here.ne_missing(here.shift(-1)))
    shown, rising = [], True
    for cores, samples in last.select("cores", "samples").rows():
        pairs = sorted(zip(cores, samples, strict=True))
        rising &= all(a < b for (few, a), (more, b) in pairwise(pairs) if few < more)
        shown.append(slashed(samples))
    detail = f"sums differ by {off}; samples before cores change and at the end: {', '.join(shown)}"
    return Answer(off == 0 and rising, detail)


def _step(place: int, fig6: pl.DataFrame) -> Answer | None:
    """When the global batch grows for the first, second or third time."""
    sizes = fig6.group_by("global_batch").agg(pl.col("at_s").min()).sort("global_batch")
    grown_s = sizes["at_s"][1:].to_list()
    if len(grown_s) <= place:
        return None
    return Answer(grown_s[place], f"to {sizes['global_batch'][place + 1]} samples")


def _wider_link(fig8: pl.DataFrame) -> Answer | None:
    """Whether worker 1 sends worker 3 more than worker 5, as the paper counts them."""
    sizes = dict(fig8.filter(source=0).group_by("target").agg(pl.col("percent").median()).rows())
    if not {2, 4} <= sizes.keys():
        return None
    return Answer(sizes[2] > sizes[4], f"of the whole gradient: {sizes[2]:.1f}/{sizes[4]:.1f} %")


def _proportional(fig20: pl.DataFrame) -> Answer:
    """Whether sizes are proportional to bandwidth, up to a quarter: medians, as both change."""
    sizes = dict(fig20.group_by("mbps").agg(pl.col("percent").median()).sort("mbps").iter_rows())
    if len(sizes) < 2:
        return Answer(not_run="takes iterations at each bandwidth, as at default scale")
    ratios = [percent / mbps for mbps, percent in sizes.items()]
    shown = ", ".join(f"{mbps:.0f} Mbit/s {percent:.1f} %" for mbps, percent in sizes.items())
    return Answer(max(ratios) <= PROPORTIONAL * min(ratios), f"of the whole gradient: {shown}")


# --- Figures --------------------------------------------------------------------------------------

Decided = partial(
    Figure,
    sizes={"learning": LEARNING},
    recorded=True,
    data=("cifar10",),
    data_at_default=AT_DEFAULT,
    judged_by_accuracy=False,
)
_UNEQUAL_CORES = replace(
    ENVIRONMENTS["homo_a"], title="Fig. 6", cores=(24.0, 24.0, 12.0, 12.0, 4.0, 4.0)
)
_UNEQUAL_LINKS, _CORES, _BANDWIDTH = (
    ENVIRONMENTS[name] for name in ("hetero_net_a", "fig19", "fig20")
)

FIG6 = Decided(
    id="fig6",
    compute=partial(decided, "Figure 6", batches, _UNEQUAL_CORES, 1000.0, True),
    chart=partial(
        draw_batches, "Local batch sizes while the global batch grows", "dlion.fig6.step.{step}"
    ),
    answers={f"dlion.fig6.step.{name}": partial(_step, place) for place, name in enumerate(STEPS)},
    causes={
        f"dlion.fig6.step.{name}": Cause(
            "data",
            "the controller's constants are not stated; here steps are equally many samples apart",
        )
        for name in STEPS
    },
)

FIG8 = Decided(
    id="fig8",
    compute=partial(decided, "Figure 8", links, _UNEQUAL_LINKS, 200.0, False),
    chart=draw_links,
    answers={"dlion.fig8.size": _wider_link},
)

FIG19 = Decided(
    id="fig19",
    compute=partial(decided, "Figure 19", batches, _CORES, STATED["fig19"]["end_s"], False),
    chart=partial(draw_batches, "Local batch sizes while cores change", "dlion.fig19.step.{step}"),
)

BOTH = JointClaims((FIG6, FIG19), {"dlion.fig6.lbs": _local_batches})

FIG20 = Decided(
    id="fig20",
    compute=partial(decided, "Figure 20", links, _BANDWIDTH, STATED["fig20"]["end_s"], False),
    chart=draw_changing_bandwidth,
    answers={"dlion.fig20.size": _proportional},
)

"""DLion's explorer: an iteration of a system on the testbed, and what exchange costs it.

Its sliders run the system and Baseline dry, for a few iterations; `table` takes all systems and as
many iterations as `iteration` does, and so a few seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.clusters import Cluster
from workbench.clusters.schedule import Schedule
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.costs.environments import ENVIRONMENTS
from workbench.dlion.costs.iteration import Iteration, Workload, iteration
from workbench.dlion.paper.testbed import LOCAL_BATCH, STATED, paper_testbed
from workbench.figures import parts
from workbench.profiles import profile_model
from workbench.reproduction.parameters import PARAMETERS, Parameter, Parameters
from workbench.utils.numbers import three_digits
from workbench.widgets import Shared, Slider

LAN_MBPS: float = STATED["machines"]["lan_mbps"]
PARTS = {
    "host_s": "host",
    "compute_s": "samples",
    "wait_s": "waiting",
    "rare_s": "timing batches",
}


@dataclass(frozen=True, kw_only=True)
class Setting(Parameters):
    """Parameters with their sliders."""

    model: Annotated[str, PARAMETERS["model"]] = "cipher"
    system: Annotated[str, Parameter("whose iteration is shown", options=lambda: list(SYSTEMS))] = (
        "dlion"
    )
    environment: Annotated[
        str, Parameter("cores and links of the workers", options=lambda: list(ENVIRONMENTS))
    ] = "hetero_sys_a"
    bandwidth_mbps: Annotated[float, Slider(10, 1000, scale="log", label="fastest WAN link")] = 50.0
    batch_size: Annotated[int, Slider(1, 256, scale="log", step=2)] = LOCAL_BATCH
    workers: Annotated[int, Slider(2, 12)] = 6
    heterogeneity: Annotated[
        float,
        Parameter("0: equal cores, 1: the environment's, 2: more unequal", low=0, high=3),
        Slider(0, 3, step=0.1),
    ] = 1.0


SHARED = Shared(
    "DLion: one iteration of workers in micro-clouds, and what exchange costs it",
    "Seconds of an iteration by part, each worker's batch, bytes by link, samples a second and "
    "what exchange costs. Heterogeneity 0 makes the environment's cores equal, 2 more unequal. "
    "Where all interfaces are the LAN's, the WAN's bandwidth changes nothing.",
    {
        "system": ("baseline", "hop", "gaia", "ako", "dlion"),
        "environment": ("homo_a", "homo_b", "hetero_cpu_a", "hetero_net_a", "hetero_sys_a"),
        "bandwidth_mbps": (20.0, 50.0, 100.0, 500.0),
        "batch_size": (8, LOCAL_BATCH, 128),
        "workers": (2, 6, 12),
        "heterogeneity": (0.0, 1.0, 2.0),
    },
)


def cluster_of(setting: Setting) -> Cluster:
    """The workers: interfaces slower than the LAN scaled, cores made more or less unequal."""
    own = ENVIRONMENTS[setting.environment]
    cores, interfaces = (
        [Schedule.of(value).at(0.0) for value in values] for values in (own.cores, own.mbps)
    )
    widest = max((mbps for mbps in interfaces if mbps < LAN_MBPS), default=setting.bandwidth_mbps)
    faster = setting.bandwidth_mbps / widest
    mbps = tuple(each * faster if each < LAN_MBPS else each for each in interfaces)
    pairs = {
        pair: each * setting.bandwidth_mbps / max(own.pairs_mbps.values())
        for pair, each in own.pairs_mbps.items()
    }
    unequal = tuple(max(cores) * (each / max(cores)) ** setting.heterogeneity for each in cores)
    where = replace(own, cores=unequal, mbps=mbps, pairs_mbps=pairs).of(setting.workers)
    constants = paper_testbed().constants
    return where.cluster(parallel_share=constants.parallel_share, link_share=constants.link_share)


def workload_of(setting: Setting) -> Workload:
    """Sizes of the model and its batches."""
    testbed = paper_testbed()
    return Workload(
        profile_model(setting.model).param_bytes,
        testbed.sample_s(setting.model, ENVIRONMENTS[setting.environment].unit),
        testbed.constants.host_ms / 1e3,
        setting.batch_size,
    )


ROUNDS, BASELINE_ROUNDS = 12, 4
"""Rounds of dry runs, so that a slider answers at once."""


def table(setting: Setting) -> pl.DataFrame:
    """A row for each system and worker: what `draw` shows of one, without haste."""
    cluster, workload = cluster_of(setting), workload_of(setting)
    rows: list[dict[str, Any]] = []
    for name in SYSTEMS:
        of = iteration(cluster, workload, name)
        rows += (
            {
                "system": name,
                "worker": worker,
                "samples": samples,
                **{part: getattr(of, part)[worker] for part in PARTS},
                "iteration_s": of.iteration_s[worker],
                "samples_per_s": of.samples_per_s,
            }
            for worker, samples in enumerate(of.batches)
        )
    return pl.DataFrame(rows)


def draw(setting: Setting) -> dict[str, Any]:
    """Seconds by part, batches and bytes by link of a system; its samples a second, and others'."""
    cluster, workload = cluster_of(setting), workload_of(setting)
    system = replace(SYSTEMS[setting.system], transfer=None)
    one = iteration(cluster, workload, system, rounds=ROUNDS)
    baseline = iteration(cluster, workload, "baseline", rounds=BASELINE_ROUNDS)
    heading = [
        f"{system.title}: {max(one.iteration_s):.3g} s an iteration",
        f"{three_digits(one.samples_per_s)} samples a second (cost model)",
    ]
    upper = figures.stacked(_seconds(one), _links(one), how="hconcat", spacing=30, title=heading)
    rates = {
        system.title: one.samples_per_s,
        SYSTEMS["baseline"].title: baseline.samples_per_s,
        "without exchange": one.alone_per_s,
    }
    return figures.stacked(upper, _rates(rates, system.title))


def _seconds(one: Iteration) -> alt.Chart:
    rows = [
        (f"{worker}: {batch}", title, getattr(one, part)[worker])
        for worker, batch in enumerate(one.batches)
        for part, title in PARTS.items()
    ]
    drawn = pl.DataFrame(rows, schema=["worker", "part", "seconds"], orient="row")
    chart: alt.Chart = (
        alt.Chart(drawn)
        .mark_bar()
        .encode(
            y=alt.Y("worker:N", sort=None, title="worker: samples"),
            x=alt.X("seconds:Q", title="seconds", axis=alt.Axis(tickCount=4)),
            color=parts.colour("part", list(PARTS.values())),
        )
        .properties(width=150, height=16 * len(one.batches), title="An iteration")
    )
    return chart


def _links(one: Iteration) -> alt.Chart:
    rows = [
        (source, target, size_bytes / 1e6)
        for (source, target), size_bytes in one.link_bytes.items()
    ]
    drawn = pl.DataFrame(rows, schema=["source", "target", "megabytes"], orient="row")
    side = 16 * len(one.batches)
    chart: alt.Chart = (
        alt.Chart(drawn)
        .mark_rect()
        .encode(
            y=alt.Y("source:O", title="from worker"),
            x=alt.X("target:O", title="to worker"),
            color=alt.Color(
                "megabytes:Q",
                title="MB",
                scale=alt.Scale(scheme="greys", domainMin=0),
                legend=alt.Legend(gradientLength=60),
            ),
        )
        .properties(width=side, height=side, title="Bytes by link")
    )
    return chart


def _rates(rates: dict[str, float], chosen: str) -> alt.LayerChart:
    rows = [
        (title, rate, three_digits(rate), figures.PALETTE[4] if title == chosen else parts.GREY)
        for title, rate in rates.items()
    ]
    drawn = pl.DataFrame(rows, schema=["system", "rate", "text", "colour"], orient="row")
    base = alt.Chart().encode(
        y=alt.Y("system:N", sort=None, title=None),
        x=alt.X("rate:Q", title="samples a second"),
    )
    bars = base.mark_bar().encode(color=alt.Color("colour:N", scale=None))
    texts = base.mark_text(align="left", dx=3).encode(text=alt.Text("text:N"))
    return alt.LayerChart(
        data=drawn,
        layer=[bars, texts],
        title=["What exchange costs", "whatever it is worth to learn from a sample (cost model)"],
        height=15 * len(rates),
    )

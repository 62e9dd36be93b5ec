"""The explorer of a comparison: sliders for a cluster of workers, an edge server and a cloud."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any

import polars as pl

from workbench.clusters import Cluster, Link, Node, star
from workbench.comparison import charts
from workbench.comparison.compare import lead
from workbench.comparison.cost import limit
from workbench.comparison.intervals import kinds_of, with_intervals
from workbench.comparison.methods import EQUAL, METHODS, Plan, usable
from workbench.comparison.problem import Problem
from workbench.comparison.table import KIND, KINDS
from workbench.figures import stacked
from workbench.profiles import profile_model
from workbench.reproduction.parameters import PARAMETERS, Parameter, Parameters
from workbench.widgets import Shared, Slider

WORKER_GFLOPS, EDGE_GFLOPS, CLOUD_GFLOPS = 8.0, 200.0, 5000.0
CLOUD_LINK = Link(100e6, overhead_s=0.030)
SAMPLES = 10_000
RULES = ("may leave", "stay")


@dataclass(frozen=True, kw_only=True)
class Setting(Parameters):
    """Setting of the explorer."""

    model: Annotated[str, PARAMETERS["model"]] = "resnet18"
    bandwidth_mbps: Annotated[float, Slider(1, 10_000, scale="log", label="bandwidth")] = 20.0
    batch_size: Annotated[int, Slider(1, 256, scale="log", step=2)] = 32
    workers: Annotated[int, Slider(2, 12)] = 4
    unevenness: Annotated[
        float,
        Parameter("how many times faster the fastest worker is than the slowest", low=1, high=100),
        Slider(1, 100, scale="log"),
    ] = 1.0
    samples: Annotated[
        str,
        Parameter("whether raw samples may leave their owner", options=lambda: RULES),
    ] = "may leave"

    @property
    def may_leave(self) -> bool:
        """Whether raw samples may leave their owner."""
        return self.samples == RULES[0]


SHARED = Shared(
    "Which way should I train this?",
    f"Workers of {WORKER_GFLOPS:g} GFLOP/s that hold {SAMPLES:,} samples each, an edge server of "
    f"{EDGE_GFLOPS:g} and a cloud of {CLOUD_GFLOPS:,.0f} behind it, 100 Mbit/s and 30 ms away. The "
    "last worker is slower than the first by the unevenness. Rates of the methods that are hardly "
    "ever slower than the others of their system; which is the fastest, and why; timelines of the "
    "fastest three: computing above, sending below, waiting in between.",
    {
        "model": ("mobilenet_v2", "resnet18", "vgg16"),
        "bandwidth_mbps": (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0),
        "batch_size": (8, 32, 128),
        "workers": (2, 4, 8),
        "unevenness": (1.0, 2.0, 4.0, 10.0),
        "samples": RULES,
    },
)


def cluster_of(setting: Setting) -> Cluster:
    """Workers around an edge server, and a cloud behind it."""
    count = setting.workers
    slower = [setting.unevenness ** (-at / (count - 1)) for at in range(count)]
    workers = [
        Node(f"worker{at}", flops_per_s=WORKER_GFLOPS * 1e9 * factor, samples=SAMPLES)
        for at, factor in enumerate(slower)
    ]
    edge = Node("edge", flops_per_s=EDGE_GFLOPS * 1e9)
    near = star(workers, [edge], Link(setting.bandwidth_mbps * 1e6, overhead_s=0.005))
    nodes = (*near.nodes, Node("cloud", flops_per_s=CLOUD_GFLOPS * 1e9))
    links = {**near.links, (count, count + 1): CLOUD_LINK, (count + 1, count): CLOUD_LINK}
    return replace(near, nodes=nodes, links=links, raw_samples_may_leave=setting.may_leave)


def problem_of(setting: Setting) -> Problem:
    """The model on the cluster."""
    return Problem(profile_model(setting.model), cluster_of(setting), setting.batch_size)


BANDWIDTHS_MBPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
UNEVENNESSES = (1.0, 2.0, 4.0, 10.0)
"""Points of the chart of winners; at smoke scale, its corners."""


def problems(
    setting: Setting, samples: str, scale: str = "default"
) -> dict[tuple[float, float], Problem]:
    """Problems at all bandwidths and unevennesses of a scale, for `charts.winners`."""
    axes: Sequence[tuple[float, ...]] = (BANDWIDTHS_MBPS, UNEVENNESSES)
    if scale == "smoke":
        axes = [(axis[0], axis[-1]) for axis in axes]
    return {
        (mbps, uneven): problem_of(
            replace(setting, bandwidth_mbps=mbps, unevenness=uneven, samples=samples)
        )
        for mbps, uneven in product(*axes)
    }


SHOWN = (
    "one node",
    "one node, samples sent once",
    "one node, samples sent each epoch",
    "all-reduce, overlapping",
    "zero-3",
    "parameter server, dynacomm",
    "hiertrain",
    "all_edge",
)
"""Methods that are hardly ever slower than the others of their system, which would take time."""

TIMELINES = 3


def ranked(problem: Problem) -> dict[str, Plan]:
    """The methods of `SHOWN` that can be used, all samples first, then the fastest first."""

    def rank(item: tuple[str, Plan]) -> tuple[bool, float]:
        _, plan = item
        return problem.share(plan.learns_from) < 1, -plan.cost.samples_per_s

    return dict(sorted(usable(problem, [METHODS[name] for name in SHOWN]).items(), key=rank))


def table(setting: Setting) -> pl.DataFrame:
    """Rows of ``method, system, samples_per_s, samples_share, limited_by, busy_share``.

    With the columns of `with_intervals`.
    """
    problem = problem_of(setting)
    return _table(problem, ranked(problem))


def _table(problem: Problem, plans: Mapping[str, Plan]) -> pl.DataFrame:
    rows = []
    for name, plan in plans.items():
        share, most = problem.share(plan.learns_from), limit(problem, plan.cost)
        rows.append((name, METHODS[name].system, plan.cost.samples_per_s, share, *most))
    columns = ["method", "system", "samples_per_s", "samples_share", "limited_by", "busy_share"]
    kinds = {name: kinds_of(METHODS[name]) for name in plans}
    return with_intervals(pl.DataFrame(rows, schema=columns, orient="row"), kinds)


def draw(setting: Setting) -> dict[str, Any]:
    """Draw rates of methods that equal SGD, and timelines of the fastest; the title answers."""
    problem = problem_of(setting)
    plans = ranked(problem)
    frame = _table(problem, plans)
    drawn = frame.with_columns(update=pl.lit(EQUAL)).with_columns(kind=KIND.cast(pl.String))
    rates = charts.marks(drawn, KINDS[:2])
    shown = [name for name, plan in plans.items() if plan.phases][:TIMELINES]
    traced = charts.traced({name: plans[name] for name in shown})
    fastest, ahead = lead(frame.filter(pl.col("samples_share") == 1))
    title = [fastest, *filter(None, [ahead.removesuffix(".")]), "simulated without learning"]
    return stacked(rates, charts.timelines(traced, []), title=title)

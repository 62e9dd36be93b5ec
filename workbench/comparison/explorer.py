"""The explorer of a comparison: sliders for a cluster of workers, an edge server and a cloud."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any

import polars as pl

from workbench.clusters import Cluster, Link, Node
from workbench.clusters.cluster import Name
from workbench.comparison import charts
from workbench.comparison.answer import EXACT
from workbench.comparison.question import Question, UnusableError
from workbench.figures import parts, stacked
from workbench.parameters import PARAMETERS, Parameter, Parameters
from workbench.profiles import profile_model
from workbench.widgets import Slider

WORKER_GFLOPS, EDGE_GFLOPS, CLOUD_GFLOPS = 8.0, 200.0, 5000.0
CLOUD_LINK = Link(100e6, overhead_s=0.030)
SAMPLES = 10_000
RULES = ("may leave", "stay")


@dataclass(frozen=True, kw_only=True)
class Setting(Parameters):
    """Parameters with their sliders."""

    model: Annotated[str, PARAMETERS["model"]] = "resnet18"
    bandwidth_mbps: Annotated[float, Slider(1, 10_000, scale="log", step=10**0.05)] = 20.0
    batch_size: Annotated[int, Slider(1, 256, scale="log", step=2)] = 32
    workers: Annotated[int, Slider(2, 12)] = 4
    unevenness: Annotated[
        float,
        Parameter("how many times faster the fastest worker is than the slowest", low=1, high=100),
        Slider(1, 100, scale="log", step=10**0.05),
    ] = 1.0
    samples: Annotated[
        str,
        Parameter("whether raw samples may leave their holder", options=lambda: RULES),
    ] = "may leave"

    @property
    def may_leave(self) -> bool:
        """Whether raw samples may leave the worker that holds them."""
        return self.samples == RULES[0]


def cluster_of(setting: Setting) -> Cluster:
    """Workers around an edge server, and a cloud behind it."""
    count = setting.workers
    slower = [setting.unevenness ** (-at / (count - 1)) for at in range(count)]
    nodes = [
        Node(f"worker{at}", flops_per_s=WORKER_GFLOPS * 1e9 * factor, samples=SAMPLES)
        for at, factor in enumerate(slower)
    ]
    nodes += [
        Node("edge", flops_per_s=EDGE_GFLOPS * 1e9),
        Node("cloud", flops_per_s=CLOUD_GFLOPS * 1e9),
    ]
    near = Link(setting.bandwidth_mbps * 1e6, overhead_s=0.005)
    links: dict[tuple[Name, Name], Link] = {}
    for source, target, link in [
        *((f"worker{at}", "edge", near) for at in range(count)),
        ("edge", "cloud", CLOUD_LINK),
    ]:
        links[source, target] = links[target, source] = link
    return Cluster(nodes, links, raw_samples_may_leave=setting.may_leave)


def question_of(setting: Setting) -> Question:
    """The model on the cluster."""
    return Question(profile_model(setting.model), cluster_of(setting), setting.batch_size)


BANDWIDTHS_MBPS = (1.0, 5.0, 20.0, 100.0, 500.0, 2000.0)
UNEVENNESSES = (1.0, 3.0, 10.0, 30.0)


def fields(setting: Setting, samples: str) -> list[tuple[float, float, Question]]:
    """Questions at all bandwidths and unevennesses, as `charts.winners` takes them."""

    def at(mbps: float, uneven: float) -> Question:
        return question_of(
            replace(setting, bandwidth_mbps=mbps, unevenness=uneven, samples=samples)
        )

    return [
        (mbps, uneven, at(mbps, uneven)) for mbps, uneven in product(BANDWIDTHS_MBPS, UNEVENNESSES)
    ]


def table(setting: Setting) -> pl.DataFrame:
    """Ways that equal SGD, the fastest first.

    Columns ``way, system, samples_per_s, samples_share, waiting_share``.
    """
    question, rows = question_of(setting), []
    for way in EXACT:
        if way.moves_samples and not setting.may_leave:
            continue
        try:
            option = way.find(question)
        except UnusableError:
            continue
        use, share = option.use, question.share(option.learns_from)
        rows.append((way.name, way.system, use.samples_per_s, share, use.waiting_share))
    schema = ["way", "system", "samples_per_s", "samples_share", "waiting_share"]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    whole = pl.col("samples_share") == 1
    return frame.sort(~whole, "samples_per_s", descending=[False, True], maintain_order=True)


def draw(setting: Setting) -> dict[str, Any]:
    """Rates of the ways that equal SGD, and timelines of up to three of them."""
    import altair as alt

    frame = table(setting)
    best, others = frame.row(0, named=True), frame.filter(pl.col("samples_share") == 1)
    rivals = others.filter(pl.col("system") != best["system"])["samples_per_s"]
    ratio = best["samples_per_s"] / rivals[0] if len(rivals) else 1.0
    ahead = f", {ratio:.3g} x as fast as another system's" if len(rivals) else ""
    kind = pl.when(pl.col("samples_share") == 1).then(pl.lit(charts.KINDS[0]))
    drawn = frame.with_columns(kind=kind.otherwise(pl.lit(charts.KINDS[1])))
    bars = (
        alt.Chart(drawn)
        .mark_bar()
        .encode(
            y=charts.by_way(drawn),
            x=alt.X("samples_per_s:Q", title="samples a second, all nodes"),
            color=parts.colour("kind", charts.KINDS[:2]),
        )
        .properties(height={"step": 13})
    )
    names = [name for name in charts.SHOWN[:3] if name in frame["way"]]
    shown = charts.timeline(question_of(setting), names)
    title = [f"{best['way']}{ahead} (cost models and dry runs)"]
    return stacked(bars, charts.timelines(shown, []), title=title)

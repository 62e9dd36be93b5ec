"""EdgeGossip's explorer: one epoch on the testbed, before and after balancing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.edgegossip.costs.course import Epoch, total_s
from workbench.edgegossip.costs.platforms import Load
from workbench.edgegossip.paper.testbed import (
    BATCH_SIZE,
    PLATFORMS,
    RATIO,
    STATED,
    UPLINK_MBPS,
    Deployment,
    kinds,
    paper_testbed,
)
from workbench.edgegossip.paper.titles import MODEL_TITLES
from workbench.edgegossip.prediction.predictor import Contention
from workbench.edgegossip.programs.trainer import EdgeGossip
from workbench.reproduction.parameters import PARAMETERS, Parameter, Parameters
from workbench.runtime import Trace
from workbench.runtime.trace import Kind, Span
from workbench.widgets import Shared, Slider


@dataclass(frozen=True, kw_only=True)
class Setting(Parameters):
    """Parameters with their sliders."""

    model: Annotated[str, PARAMETERS["model"].among(MODEL_TITLES.keys)] = "alexnet_cifar"
    platforms: Annotated[
        int, Parameter("how many gossip with each other", low=2, high=64), Slider(2, 12)
    ] = PLATFORMS
    imbalance: Annotated[
        float,
        Parameter("of every second CPU platform", "times slower", low=1, high=1000),
        Slider(1, 10, step=0.1),
    ] = 1.0
    aggregation_ratio: Annotated[
        float,
        Parameter("for each aggregated one", "points", low=1, high=1000),
        Slider(1, 50, step=1),
    ] = RATIO
    bandwidth_mbps: Annotated[float, Slider(100, 40_000, scale="log", label="bandwidth")] = (
        UPLINK_MBPS
    )
    batch_size: Annotated[int, Slider(1, 4096, scale="log", step=2)] = BATCH_SIZE
    load: Annotated[
        float,
        Parameter("that co-runners use on CPU platforms", "of all cores", low=0, high=1),
        Slider(0, 1, step=0.01, label="co-runners"),
    ] = 0.3


SHARED = Shared(
    "EdgeGossip: one epoch, before and after balancing",
    "For each platform one epoch with GoSGD above the same with EdgeGossip. Who waits for whom "
    "shows as wait; below, what share of its points each platform learns from.",
    {
        "model": tuple(MODEL_TITLES),
        "platforms": (2, PLATFORMS, 12),
        "imbalance": (1.0, 2.0, 4.0, 10.0),
        "aggregation_ratio": (5.0, RATIO, 20.0),
        "bandwidth_mbps": (100.0, 1000.0, UPLINK_MBPS, 40_000.0),
        "batch_size": (16, BATCH_SIZE, 1024),
        "load": (0.0, 0.3, 0.9),
    },
)


PHASES = ("learn", "wait", "rank")  # each keeps its colour, whichever of them an epoch has


def draw(setting: Setting) -> dict[str, Any]:
    """One epoch of plain gossip, the same with EdgeGossip, and what each platform keeps.

    The epoch is one in which points are aggregated already and each platform waits for its peers.
    Whole batches are learnt from, as in Algorithm 2. By the cost model.
    """
    model = setting.model
    deployment, plain, ours = _epochs(setting)
    before_s, after_s = total_s(plain), total_s(ours)
    title = [
        f"{MODEL_TITLES.get(model, model)}, an epoch: {before_s:.3g} s with GoSGD, "
        f"{after_s:.3g} s with EdgeGossip",
        f"{before_s / after_s:.2f} times as fast (cost model)",
    ]
    timeline = _both(deployment, plain, ours).gantt(colour="label", order=PHASES)
    timeline.title = title
    return figures.stacked(timeline, _kept(deployment, ours))


def trace(setting: Setting) -> Trace:
    """Return both epochs that `draw` shows."""
    return _both(*_epochs(setting))


def _both(deployment: Deployment, plain: Sequence[Epoch], ours: Sequence[Epoch]) -> Trace:
    """Both methods on every platform, a lane each."""
    return Trace.of(
        span
        for epochs in zip(plain, ours, strict=True)
        for lane, epoch in zip(("GoSGD", "EdgeGossip"), epochs, strict=True)
        for span in _spans(deployment.platforms[epoch.node].name, lane, epoch)
    )


def _epochs(setting: Setting) -> tuple[Deployment, list[Epoch], list[Epoch]]:
    count = setting.platforms
    slower = [
        setting.imbalance if at < (count + 1) // 2 and at % 2 == 0 else 1.0 for at in range(count)
    ]
    batch = setting.batch_size
    quiet = paper_testbed().deployment(
        setting.model,
        count,
        points=batch * max(1, round(STATED["assumed"]["points_per_platform"] / batch)),
        uplink_mbps=setting.bandwidth_mbps,
        slower=slower,
        until_s=0.0,
    )
    busy = Load((0.0,), (Contention(core=setting.load),))
    loaded = (
        replace(each, load=busy) if kind == "cpu" else each
        for kind, each in zip(kinds(count), quiet.platforms, strict=True)
    )
    deployment = replace(quiet, platforms=tuple(loaded))
    how = deployment.options(EdgeGossip(ratio=setting.aggregation_ratio))
    how = replace(how, operations_per_s=1e30)  # all are aggregated already
    plain, ours = (deployment.course(1, each, batch_size=batch) for each in (None, how))
    return deployment, plain, ours


def _spans(node: str, lane: str, epoch: Epoch) -> list[Span]:
    spans, at_s = [], epoch.start_s
    parts: tuple[tuple[str, Kind, float], ...] = (
        ("rank", "work", epoch.select_s),
        ("learn", "work", epoch.learn_s),
        ("wait", "wait", epoch.wait_s),
    )
    for label, kind, seconds in parts:
        if seconds > 0:
            spans.append(Span(node, lane, label, at_s, at_s + seconds, kind=kind))
        at_s += seconds
    return spans


def _kept(deployment: Deployment, epochs: Sequence[Epoch]) -> alt.LayerChart:
    names = [deployment.platforms[epoch.node].name for epoch in epochs]
    percents = [
        100 * epoch.samples / count for epoch, count in zip(epochs, deployment.points, strict=True)
    ]
    texts = [f"{percent:.3g} %" for percent in percents]
    table = pl.DataFrame({"platform": names, "percent": percents, "text": texts})
    base = alt.Chart().encode(
        y=alt.Y("platform:N", sort=None, title=None),
        x=alt.X("percent:Q", title="of its points, %", scale=alt.Scale(domain=[0, 100])),
    )
    bars = base.mark_bar(color=figures.PALETTE[4])
    labels = base.mark_text(align="left", dx=3).encode(text=alt.Text("text:N"))
    return alt.LayerChart(
        data=table,
        layer=[bars, labels],
        title="What each platform learns from",
        height=20 * len(epochs),
    )

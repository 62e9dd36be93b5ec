"""Charts of predicted against measured epochs, and of epochs in two regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.comparison import hivemind
from workbench.comparison.data_parallel import predict_epoch_s
from workbench.comparison.regions import Regions, tcp_link
from workbench.figures.parts import GREY, colour, facets, shape
from workbench.utils.numbers import link_rate

if TYPE_CHECKING:
    import altair as alt

PREDICTIONS = {
    "predicted_s": "simulated",
    "computing_s": "computing alone",
    "bandwidth_s": "computing, and bytes over bandwidth",
}
BATCH = 32_768
"""Samples of an epoch in the measured trainings, whose computing was fitted."""


def predictions(frame: pl.DataFrame) -> alt.FacetChart:
    """Draw predicted against measured epochs of `hivemind.predicted`, a panel a prediction."""
    import altair as alt

    drawn = frame.unpivot(
        on=list(PREDICTIONS),
        index=["run", "model", "set", "measured_s"],
        variable_name="prediction",
        value_name="epoch_s",
    ).with_columns(pl.col("prediction").replace_strict(PREDICTIONS))
    scale = alt.Scale(type="log", domain=[30, 600], nice=False)
    axis = alt.Axis(values=[30, 60, 120, 240, 480])
    x = alt.X("measured_s:Q", title="measured epoch, s", scale=scale, axis=axis)
    base = alt.Chart(drawn)
    exact = base.mark_line(color=GREY).encode(x=x, y=alt.Y("measured_s:Q", scale=scale, axis=axis))
    points = base.mark_point(filled=True, size=45, opacity=0.9).encode(
        x=x,
        y=alt.Y("epoch_s:Q", title="predicted epoch, s", scale=scale, axis=axis),
        color=colour("set", list(hivemind.SETS.values())),
        shape=shape("model", ["CV", "NLP"]),
        tooltip=["run:N", "model:N", "measured_s:Q", "epoch_s:Q"],
    )
    return facets(
        (exact + points).properties(height=190),
        "prediction",
        list(PREDICTIONS.values()),
        ["26 trainings with Hivemind, measured by others; on the line, predicted is measured"],
    )


def two_regions(
    model: str,
    bandwidth_mbps: float,
    round_trip_ms: float,
    machines: int = 8,
    batch_size: int = BATCH,
) -> pl.DataFrame:
    """Seconds of an epoch, ``machines, part, seconds``, with half the machines in each region.

    There are rows for 2, 4, ... up to `machines`. They compute `batch_size` samples together.
    `bandwidth_mbps` is what one TCP stream between the regions reaches in the long run.
    """
    size_bytes = hivemind.runs().filter(model=model)["parameters_bytes"][0]
    link = tcp_link(bandwidth_mbps * 1e6, round_trip_ms / 1e3)
    known = hivemind.regions()
    places = Regions({("here", "there"): link}, known.within, known.host_bps)
    rows = []
    for count in range(2, machines + 1, 2):
        cluster = places.cluster(["here", "there"] * (count // 2))
        computing_s = hivemind.machine_s()[model] * batch_size / BATCH / count
        whole_s = predict_epoch_s(cluster, size_bytes, computing_s, hivemind.averaging())
        rows += [
            (count, "computing", computing_s),
            (count, "averaging", whole_s - computing_s),
        ]
    return pl.DataFrame(rows, schema=["machines", "part", "seconds"], orient="row")


def draw_two_regions(
    model: str,
    bandwidth_mbps: float,
    round_trip_ms: float,
    machines: int = 8,
    batch_size: int = BATCH,
) -> alt.Chart:
    """Draw `two_regions` as bars."""
    import altair as alt

    chart: alt.Chart = (
        alt.Chart(two_regions(model, bandwidth_mbps, round_trip_ms, machines, batch_size))
        .mark_bar()
        .encode(
            x=alt.X("machines:O", title="machines, half in each of two regions"),
            y=alt.Y("seconds:Q", title="epoch, s"),
            color=colour("part", ["computing", "averaging"]),
            order=alt.Order("part:N", sort="descending"),
        )
        .properties(
            height=180,
            title=f"{model}: {link_rate(bandwidth_mbps)} a stream, {round_trip_ms:g} ms away "
            "(simulated)",
        )
    )
    return chart

"""Recorded predictions of what others measured, and charts of them: figures of notebook 08.

    WORKBENCH_DATA=~/data workbench record validation

records predictions and errors, without the corpora's rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.clusters import load_constants
from workbench.comparison.validation import coverage
from workbench.comparison.validation.against import ablation, errors, found, judged, left_out
from workbench.comparison.validation.corpora import CORPORA, hivemind
from workbench.figures.parts import GREY, colour, facets
from workbench.reproduction import recordings
from workbench.reproduction.figure import Figure
from workbench.utils.checks import UserError
from workbench.utils.numbers import link_rate

if TYPE_CHECKING:
    import altair as alt

BATCH = 32_768
"""Samples of an epoch in the measured trainings, whose computing was fitted."""

MODEL_BYTES = {"CV": 395_600_000, "NLP": 1_120_200_000}
"""Bytes that each model averages, two a parameter."""

MOST = 400
"""Points of a panel at most; of more rows, one in a few is drawn."""


def _record_predictions() -> pl.DataFrame:
    """Predictions and errors of all corpora: no row of theirs."""
    kept = "set", "role", pl.col("predicted_s", "predicted_error").cast(pl.Float32)
    return pl.concat(
        judged(corpus, rows, load_constants("validation", name)).select(
            pl.lit(name).alias("corpus"), *kept
        )
        for name, (corpus, rows) in found().items()
    )


def _record_errors() -> pl.DataFrame:
    return pl.concat(
        (
            errors(judged(corpus, rows, load_constants("validation", name)), corpus.kind).select(
                pl.lit(name).alias("corpus"), pl.lit(100 * corpus.goal).alias("goal"), pl.all()
            )
            for name, (corpus, rows) in found().items()
        ),
        how="vertical_relaxed",
    )


def _record_parts() -> pl.DataFrame:
    return pl.concat(
        ablation(corpus, rows).select(pl.lit(name).alias("corpus"), pl.all())
        for name, (corpus, rows) in found().items()
        if corpus.without
    )


def _record_left_out() -> pl.DataFrame:
    corpus, rows = found()["adaptdl"]
    return left_out(corpus, rows).select(pl.lit("adaptdl").alias("corpus"), pl.all())


def _record_coverage() -> pl.DataFrame:
    corpora = found()
    constants = {name: load_constants("validation", name) for name in corpora}
    ratios = coverage.ratios(corpora, constants)
    models = coverage.new_models(ratios)
    return coverage.held_out(ratios).join(
        models, on=["kind", "corpus"], how="left", maintain_order="left"
    )


FIGURES = tuple(
    Figure(id=name, compute=compute, recorded=True)
    for name, compute in {
        "predictions": _record_predictions,
        "errors": _record_errors,
        "parts": _record_parts,
        "left_out": _record_left_out,
        "coverage": _record_coverage,
    }.items()
)


def recorded(figure: str) -> pl.DataFrame:
    """Recorded rows of a figure; prints what they are."""
    recording = recordings.load("validation", figure)
    if recording is None:
        raise UserError(f"{figure} is not recorded; `workbench record validation {figure}` does it")
    print(recording)
    return recording.frame


def draw_predictions(frame: pl.DataFrame) -> alt.FacetChart:
    """Draw predicted over measured times of recorded predictions, a panel a corpus."""
    import altair as alt

    titles = {name: corpus.title for name, corpus in CORPORA.items()}
    roles = {"apart": "listed apart", "fit": "constants fitted on it", "predict": "predicted"}
    drawn = frame.select(
        "set",
        "predicted_s",
        corpus=pl.col("corpus").replace(titles),
        role=pl.col("role").replace_strict(roles),
        measured_s=pl.col("predicted_s") / (1 + pl.col("predicted_error")),
    )
    place, of = pl.int_range(pl.len()).over("corpus"), pl.len().over("corpus")
    shown = drawn.filter(place % (1 + of // MOST) == 0)
    axis = alt.Axis(format="~g", tickCount=4)
    scale = alt.Scale(type="log", nice=False)
    base = alt.Chart(shown)
    x = alt.X("measured_s:Q", title="measured, s", scale=scale, axis=axis)
    exact = base.mark_line(color=GREY, strokeWidth=1).encode(
        x=x, y=alt.Y("measured_s:Q", scale=scale, axis=axis)
    )
    points = base.mark_point(filled=True, size=10, opacity=0.5).encode(
        x=x,
        y=alt.Y("predicted_s:Q", title="predicted, s", scale=scale, axis=axis),
        color=colour("role", list(roles.values())[::-1]),
        tooltip=[
            "set:N",
            "measured_s:Q",
            "predicted_s:Q",
        ],
    )
    panels = facets(
        (points + exact).properties(height=150, width=150),
        "corpus",
        list(titles.values()),
        ["Times that others measured; on the line, predicted is measured"],
    )
    independent: alt.FacetChart = panels.resolve_scale(x="independent", y="independent")
    return independent


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
    constants = load_constants("validation", "hivemind")
    link = hivemind.tcp_link(bandwidth_mbps * 1e6, round_trip_ms / 1e3)
    rows = []
    for count in range(2, machines + 1, 2):
        cluster = hivemind.cluster_of("US EU " * (count // 2), constants, between=link)
        computing_s = constants[f"{model} machine_s"] * batch_size / BATCH / count
        whole_s = hivemind.epoch_s(cluster, MODEL_BYTES[model], computing_s, constants)
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

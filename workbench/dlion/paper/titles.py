"""Titles, and charts of trainings that several modules draw."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from workbench import datasets
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.costs.environments import ENVIRONMENTS
from workbench.dlion.paper.accuracy import final
from workbench.dlion.paper.cases import BY_SENTENCE
from workbench.figures import parts

SYSTEM_TITLES = {name: one.title for name, one in SYSTEMS.items()}

ENVIRONMENT_TITLES = {name: one.title for name, one in ENVIRONMENTS.items()}

LEARNER_TITLES = {
    "cipher": "Cipher",
    "cipher_small": "small Cipher",
    "mobilenet_v1": "MobileNet",
    "mobilenet_v1_cifar": "MobileNet for small images",
}

WORKERS = [f"worker {node}" for node in range(6)]


def learnt_title(subject: str, frame: pl.DataFrame, shows: str = "mean and range") -> list[str]:
    """A title: what is shown, and what learnt what."""
    row: dict[str, Any] = frame.row(0, named=True)
    seeds = frame["seed"].n_unique()
    who, timed = (LEARNER_TITLES.get(row[name], row[name]) for name in ("learner", "timed"))
    if who != timed or row["stands_for"] != 1:
        who = f"{who} with {timed}'s times, an iteration for {row['stands_for']:g} of its"
    data = f"{row['train_samples']:,} samples of {datasets.title(row['dataset'])}"
    ranges = "one seed" if seeds == 1 else f"{shows} of {seeds} seeds"
    chance = ["chance is 10 %"] if shows == "mean" else []  # all data sets have ten classes
    return [subject, *parts.trained(frame)[1], f"{who}; {data}; {ranges} (simulated)", *chance]


def system_title(frame: pl.DataFrame) -> pl.Expr:
    """Title of a row's system: of Max 10 by its reading, if several; whether the rest adds up."""
    name = pl.col("system").replace(SYSTEM_TITLES)
    if frame.filter(system="max10")["n"].n_unique() > 1:
        name = (
            pl.when(pl.col("n") == BY_SENTENCE)
            .then(pl.lit("Max 10 by the sentence"))
            .when(system="max10")
            .then(pl.lit("Max 10 by the examples"))
            .otherwise(name)
        )
    return (
        pl.when("accumulate")
        .then(pl.format("{}, adding up", name))
        .when(~pl.col("accumulate"))
        .then(pl.format("{}, forgetting", name))
        .otherwise(name)
        .alias("system")
    )


def values(frame: pl.DataFrame, column: str) -> list[Any]:
    """Values of a column, each once, as they come."""
    return frame[column].unique(maintain_order=True).to_list()


def final_percents(
    frame: pl.DataFrame, *by: str, value: str = "top1", counts: Any = final
) -> pl.DataFrame:
    """Mean and range over seeds of the accuracy of rows that count, in percent."""
    percent = 100 * pl.col(value)
    return (
        counts(frame)
        .group_by(*by, maintain_order=True)
        .agg(mean=percent.mean(), low=percent.min(), high=percent.max())
    )


def panels(
    panel: str,
    by: str,
    subject: str,
    frame: pl.DataFrame,
    *,
    value: str = "top1",
    axis: str = "top-1, %",
    counts: Any = final,
) -> alt.FacetChart:
    """Bars of final values by `by`, with their range over seeds, a panel for each of `panel`."""
    titled = frame.with_columns(
        system_title(frame), pl.col("environment").replace(ENVIRONMENT_TITLES)
    )
    names, each = values(titled, by), values(titled, panel)
    base = alt.Chart(final_percents(titled, panel, by, value=value, counts=counts)).encode(
        y=alt.Y(f"{by}:N", sort=names, title=None)
    )
    bars_of = alt.layer(*_ranges(base, axis)).properties(height=16 * len(names))
    return parts.facets(bars_of, panel, each, learnt_title(subject, frame))


def bars(column: str, axis: str, subject: str, frame: pl.DataFrame) -> alt.LayerChart:
    """Bars of final accuracies by a column, with their range over seeds."""
    drawn = final_percents(frame, column)
    base = alt.Chart(drawn).encode(y=alt.Y(f"{column}:O", title=axis))
    title = learnt_title(subject, frame)
    return alt.LayerChart(layer=_ranges(base, "top-1, %"), height=20 * len(drawn), title=title)


def _ranges(base: alt.Chart, axis: str) -> list[alt.Chart]:
    """Means as bars with their range over seeds, and beside the plot as numbers."""
    return [
        base.mark_bar().encode(x=alt.X("mean:Q", title=axis)),
        base.mark_rule().encode(x="low:Q", x2="high:Q"),
        base.mark_text(align="left", dx=6).encode(
            x=alt.value("width"), text=alt.Text("mean:Q", format=".1f")
        ),
    ]


def curves(frame: pl.DataFrame, field: str, *panel: str) -> alt.Chart:
    """Mean accuracy over time, a line for each value of a column; rows keep their panel."""
    drawn = (
        parts.trained(frame)[0]
        .group_by(*panel, field, "at_s", maintain_order=True)
        .agg(percent=100 * pl.col("top1").mean())
        .drop_nulls("percent")
    )
    lines = parts.over_time(drawn, field, values(frame, field)).encode(
        y=alt.Y("percent:Q", title="top-1, %")
    )
    chart: alt.Chart = lines.properties(height=130)
    return chart

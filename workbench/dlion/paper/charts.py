"""Charts of trainings: bars of accuracies, curves, and titles that say what learnt what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import altair as alt
import polars as pl

from workbench import datasets, figures
from workbench.decentralised.exchanges import TITLES
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.costs.environments import ENVIRONMENTS
from workbench.dlion.paper.accuracy import Counting, final, target_of
from workbench.dlion.paper.cases import BY_SENTENCE
from workbench.figures import parts
from workbench.reproduction.trainings import mean_of_all, seconds_to

SYSTEM_TITLES = {name: system.title for name, system in SYSTEMS.items()} | TITLES
ENVIRONMENT_TITLES = {name: where.title for name, where in ENVIRONMENTS.items()}
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
            .then(pl.lit("Max 10, sentence"))
            .when(system="max10")
            .then(pl.lit("Max 10, examples"))
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


def panels(
    panel: str,
    by: str,
    subject: str,
    frame: pl.DataFrame,
    *,
    value: str = "top1",
    axis: str = "top-1, %",
    counting: Counting = final,
    stated: Callable[[], pl.DataFrame] | None = None,
) -> alt.FacetChart:
    """Bars of accuracies by `by`, with their range over seeds, a panel for each of `panel`.

    `stated` returns the paper's ratios, ``environment, system, paper`` (DLion's accuracy over a
    system's): rings show where they would put a system beside DLion.
    """
    titled = frame.with_columns(
        system_title(frame), pl.col("environment").replace(ENVIRONMENT_TITLES)
    )
    drawn = _percents(counting(titled), panel, by, value=value)
    title = learnt_title(subject, frame)
    if stated is not None:
        ratios = parts.titled(stated(), environment=ENVIRONMENT_TITLES, system=SYSTEM_TITLES)
        dlion = drawn.filter(system=SYSTEM_TITLES["dlion"]).select(panel, dlion="mean")
        drawn = drawn.join(ratios, on=[panel, by], how="left", maintain_order="left")
        drawn = drawn.join(dlion, on=panel, how="left", maintain_order="left").with_columns(
            paper=pl.col("dlion") / pl.col("paper")
        )
        title += parts.rings_title(drawn, "where the paper's gains of DLion put the others")
    base = alt.Chart(drawn).encode(y=alt.Y(f"{by}:N", sort=values(titled, by), title=None))
    rings = [parts.paper_rings(base, x="paper:Q")] if stated else []
    layers = [*_ranges(base, axis), *rings]
    chart = alt.layer(*layers).properties(height=16 * len(values(titled, by)))
    return parts.facets(chart, panel, values(titled, panel), title)


def bars(column: str, axis: str, subject: str, frame: pl.DataFrame) -> alt.LayerChart:
    """Bars of final accuracies by a column, with their range over seeds."""
    drawn = _percents(final(frame), column)
    base = alt.Chart(drawn).encode(y=alt.Y(f"{column}:O", title=axis))
    title = learnt_title(subject, frame)
    return alt.LayerChart(layer=_ranges(base, "top-1, %"), height=20 * len(drawn), title=title)


def _percents(rows: pl.DataFrame, *by: str, value: str = "top1") -> pl.DataFrame:
    percent = 100 * pl.col(value)
    means = {"mean": percent.mean(), "low": percent.min(), "high": percent.max()}
    return rows.group_by(*by, maintain_order=True).agg(**means)


def _ranges(base: alt.Chart, axis: str) -> list[alt.Chart]:
    """Means as bars with their range over seeds, and beside the plot as numbers."""
    return [
        base.mark_bar().encode(x=alt.X("mean:Q", title=axis)),
        base.mark_rule().encode(x="low:Q", x2="high:Q"),
        base.mark_text(align="left", dx=6).encode(
            x=alt.value("width"), text=alt.Text("mean:Q", format=".1f")
        ),
    ]


def seconds_bars(
    frames: Mapping[str, pl.DataFrame],
    by: str,
    title: list[str],
    stated: pl.DataFrame | None = None,
) -> alt.FacetChart:
    """Bars of seconds until an accuracy by `by`, a panel for each frame: what all in it reach.

    `stated` are the paper's percent of time that a setting saves over the one before it in its
    panel, which rings show: `by`, ``name`` (of the frame) and ``paper``.
    """
    rows: list[tuple[str, str, object, float | None]] = []
    for name, frame in frames.items():
        target = target_of(frame)
        heading = f"{name}: to {100 * target:.0f} %"
        for (setting,), part in frame.group_by(by, maintain_order=True):
            seconds = mean_of_all(seconds_to(part, target).values())
            rows.append((name, heading, setting, seconds))
    schema = {"name": pl.String, "panel": pl.String, by: pl.String, "seconds": pl.Float64}
    rounded = pl.col("seconds").round(0).cast(pl.Int64)
    drawn = pl.DataFrame(rows, schema, orient="row").with_columns(
        text=pl.format("{} s", rounded).fill_null("never")
    )
    if stated is None:
        drawn = drawn.with_columns(paper=pl.lit(None, pl.Float64))
    else:
        before_s = pl.col("seconds").shift(1).over("panel")
        drawn = drawn.join(stated, on=["name", by], how="left", maintain_order="left").with_columns(
            paper=before_s * (1 - pl.col("paper") / 100)
        )
        title = [*title, *parts.rings_title(drawn, "what the paper saves of the bar above")]
    names = values(drawn, by)
    base = alt.Chart(drawn).encode(
        y=alt.Y(f"{by}:N", sort=names, title=None),
        x=alt.X("seconds:Q", title="virtual seconds"),
    )
    texts = base.mark_text(align="left", dx=6).encode(x=alt.value("width"), text="text:N")
    rings = parts.paper_rings(base, x="paper:Q")
    chart = alt.layer(base.mark_bar(), texts, rings).properties(height=16 * len(names))
    return parts.facets(chart, "panel", values(drawn, "panel"), title)


def curves(frame: pl.DataFrame, by: str, *panel: str) -> alt.Chart:
    """Mean accuracy over time, a line for each value of a column; rows keep their panel."""
    drawn = (
        parts.trained(frame)[0]
        .group_by(*panel, by, "at_s", maintain_order=True)
        .agg(percent=100 * pl.col("top1").mean())
        .drop_nulls("percent")
    )
    lines = parts.over_time(drawn, by, values(frame, by)).encode(
        y=alt.Y("percent:Q", title="top-1, %")
    )
    chart: alt.Chart = lines.properties(height=130)
    return chart


def by_workers(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy, and iterations done, by the number of workers."""
    last = final(frame).with_columns(system_title(frame))
    drawn = (
        last.group_by("system", "workers", maintain_order=True)
        .agg(pl.col("iterations").mean(), percent=100 * pl.col("top1").mean())
        .with_columns(iterations=pl.col("iterations") * frame["stands_for"][0])
        .rename({"percent": "top-1, %", "iterations": "the paper's iterations of a worker"})
        .unpivot(index=["system", "workers"])
    )
    axis = alt.X("workers:Q", scale=alt.Scale(type="log", base=2, nice=False, padding=12))
    sizes = drawn["workers"].unique().sort().to_list()
    lines = (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=axis.axis(values=sizes),
            y=alt.Y("value:Q", title=None),
            **figures.series("system", values(last, "system")),
        )
    )
    title = learnt_title("More workers, kinds as in Hetero SYS A", frame)
    facets = parts.facets(
        lines.properties(height=130), "variable", values(drawn, "variable"), title
    )
    return facets.resolve_scale(y="independent")

"""Accuracy of late and of exact gradients."""

from __future__ import annotations

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.olpb.paper.charts.memory import MODEL_TITLES

TITLES = {"sequential": "one node", "olpb": "OLPB", "bppsa": "BPPSA"}


def decoupled(frame: pl.DataFrame) -> alt.HConcatChart:
    """Validation accuracy by iteration and by virtual time, a line per method; means over seeds.

    By iteration, one node's line is that of all methods with exact gradients.
    """
    ended, left_out = parts.trained(frame)
    late = ended["modules"].drop_nulls().unique().sort().to_list()
    order = [*TITLES.values(), *(f"DPB, {count} modules" for count in late)]
    drawn = (
        ended.with_columns(
            method=pl.when(method="dpb")
            .then(pl.format("DPB, {} modules", "modules"))
            .otherwise(pl.col("method").replace(TITLES))
        )
        .group_by("method", "iteration", maintain_order=True)
        .agg(pl.col("at_s").mean(), percent=100 * pl.col("top1").mean())
    )
    same = [title for name, title in TITLES.items() if name != "sequential"]
    iterations = (
        alt.Chart(drawn.filter(~pl.col("method").is_in(same)))
        .mark_line(point=True)
        .encode(
            x=alt.X("iteration:Q", scale=alt.Scale(zero=True)),
            y=parts.accuracy(),
            **figures.series("method", order),
        )
    )
    seconds = parts.over_time(drawn, "method", order).encode(y=parts.accuracy(""))
    chart: alt.HConcatChart = alt.hconcat(
        iterations.properties(height=150), seconds.properties(height=150)
    ).properties(
        title=_title(frame, f"by iteration {' and '.join(same)} are as one node", *left_out)
    )
    return chart


def _title(frame: pl.DataFrame, *more: str) -> list[str]:
    one, seeds = frame.row(0, named=True), frame["seed"].n_unique()
    model, dataset = MODEL_TITLES.get(one["model"], one["model"]), one["dataset"].replace("_", " ")
    return [
        "Late gradients (simulated)",
        f"{model} on {dataset}, {parts.samples(frame)}, batches of {one['batch_size']}",
        f"{one['nodes']} nodes, delay factor {one['delay_factor']:g}, "
        f"mean of {seeds} seed{'s' * (seeds > 1)}",
        *more,
    ]

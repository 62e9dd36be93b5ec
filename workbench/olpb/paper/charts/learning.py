"""Accuracy of late and of exact gradients."""

from __future__ import annotations

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts

EXACT = "exact gradients"


def decoupled(frame: pl.DataFrame) -> alt.HConcatChart:
    """Validation accuracy by iteration and by virtual time, a line per method; means over seeds.

    Methods with exact gradients are one line by iteration.
    """
    ended, left_out = parts.trained(frame)
    late = ended["modules"].drop_nulls().unique().sort().to_list()
    titles = {"olpb": "OLPB", "bppsa": "BPPSA", "sequential": "one node"}
    order = [*titles.values(), *(f"DPB, {count} modules" for count in late)]
    drawn = (
        ended.with_columns(
            method=pl.when(method="dpb")
            .then(pl.format("DPB, {} modules", "modules"))
            .otherwise(pl.col("method").replace(titles))
        )
        .group_by("method", "iteration", maintain_order=True)
        .agg(pl.col("at_s").mean(), percent=100 * pl.col("top1").mean())
    )
    exact = pl.col("method") == titles["sequential"]
    by_iteration = drawn.filter(exact | pl.col("method").str.starts_with("DPB")).with_columns(
        method=pl.when(exact).then(pl.lit(EXACT)).otherwise("method")
    )
    iterations = (
        alt.Chart(by_iteration)
        .mark_line(point=True)
        .encode(
            x=alt.X("iteration:Q"),
            y=parts.accuracy(),
            **figures.series("method", [EXACT, *order[3:]]),
        )
    )
    seconds = parts.over_time(drawn, "method", order).encode(y=parts.accuracy(""))
    chart: alt.HConcatChart = (
        alt.hconcat(iterations.properties(height=150), seconds.properties(height=150))
        .resolve_scale(color="independent", shape="independent", strokeDash="independent")
        .properties(title=_title(frame, *left_out))
    )
    return chart


def _title(frame: pl.DataFrame, *more: str) -> list[str]:
    one = frame.row(0, named=True)
    seeds = frame["seed"].n_unique()
    return [
        "Late gradients (simulated)",
        f"{one['model']} on {one['dataset'].replace('_', ' ')}, {parts.samples(frame)}, "
        f"batches of {one['batch_size']}",
        f"{one['nodes']} nodes, delay factor {one['delay_factor']:g}, "
        f"mean of {seeds} seed{'s' * (seeds > 1)}",
        *more,
    ]

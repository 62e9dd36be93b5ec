"""Tables of trained methods for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.comparison.text import refusals
from workbench.training.objective import Metric
from workbench.utils import terminal
from workbench.utils.numbers import three_digits

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.table import Table

    from workbench.comparison.learning.ranking import TrainedMethods

HEADINGS: tuple[str, ...] = (
    "method",
    "virtual s to\ntest loss {target}",
    "least to\nmost",
    "MB",
    "samples",
    "test loss\nat the end",
)


def tables(trained: TrainedMethods, title: str) -> Iterator[Table]:
    """Trained methods by rank; the metric over time; and methods that were not trained."""
    rows = trained.summary.filter(pl.col("reason").is_null())
    name, headings = trained.objective.shown, HEADINGS
    if name is not None:
        heading = trained.objective.metrics[name].heading.replace(", ", "\n")
        headings = (*HEADINGS, heading, "least to\nmost")
    cells_by_row = [_cells(row, trained) for row in rows.iter_rows(named=True)]
    columns = zip(*cells_by_row, strict=True)
    shown = [(head, cells) for head, cells in zip(headings, columns, strict=False) if any(cells)]
    table = terminal.table(title, padding=0)
    for heading, _ in shown:
        justify: JustifyMethod = "left" if heading == "method" else "right"
        text = heading.replace("{target}", f"{trained.target_loss:.3g}")
        table.add_column(text, justify=justify, no_wrap=heading != "method")
    for cells in zip(*(cells for _, cells in shown), strict=True):
        table.add_row(*cells)
    if table.rows:
        if rows["cut_short"].any():
            table.caption = (
                "* cut short at the most epochs that a method learns for; --epochs gives more"
            )
        yield table
        yield _over_time(trained)
    yield from refusals(trained.summary, "Not trained")


def _over_time(trained: TrainedMethods) -> Table:
    """Table of the metric, or else the loss, after parts of the time."""
    name = trained.objective.shown
    metric = trained.objective.metrics[name] if name is not None else Metric(title="loss")
    table = terminal.table(f"Test {metric.heading} after virtual seconds, by method")
    frame = trained.over_time
    for column in frame.columns:
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, *values in frame.iter_rows():
        table.add_row(method, *(_number(metric, value) for value in values))
    return table


def _number(metric: Metric, value: float | None) -> str:
    if value is None:
        return ""
    return f"{metric.scale * value:{'.1f' if metric.percent else '.3g'}}"


def _cells(row: dict[str, Any], trained: TrainedMethods) -> list[str]:
    several, objective = row["seeds"] > 1, trained.objective
    ends = ("min", "max") if several else ()
    if row["to_loss_s"] is not None:
        to_loss = [
            three_digits(row["to_loss_s"]),
            " to ".join(three_digits(row[f"to_loss_s_{end}"]) for end in ends),
            three_digits(row["to_loss_bytes"] / 1e6),
            f"{row['to_loss_samples']:,.0f}",
        ]
    else:
        reached = f"{row['reached']} of {row['seeds']} seeds" if row["reached"] else ""
        to_loss = [
            f"not within {three_digits(row['end_s'] if row['cut_short'] else trained.seconds)} s",
            reached,
            "",
            "",
        ]
    metric, name = ["", ""], objective.shown
    if name is not None and row[f"end_{name}"] is not None:
        mean, low, high = (
            _number(objective.metrics[name], row[f"end_{name}{suffix}"])
            for suffix in ("", "_min", "_max")
        )
        metric = [mean, f"{low} to {high}" if several else ""]
    return [
        f"{row['method']} *" if row["cut_short"] else row["method"],
        *to_loss,
        f"{row['end_loss']:.3g}",
        *metric,
    ]

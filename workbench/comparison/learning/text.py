"""Trained ways as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.comparison.text import left_aligned, refusals

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.table import Table

    from workbench.comparison.learning.ranking import TrainedWays
    from workbench.training import Objective

HEADINGS: tuple[str, ...] = (
    "way",
    "virtual s to\ntest loss {target}",
    "least to\nmost",
    "MB",
    "samples",
    "test loss\nat the end",
)


def tables(trained: TrainedWays, title: str) -> Iterator[Table]:
    """Ways that were trained, the first to reach the loss first, and the others with a reason."""
    rows = trained.summary.filter(pl.col("reason").is_null())
    name, headings = trained.objective.shown, HEADINGS
    if name is not None:
        heading = trained.objective.metrics[name].heading.replace(", ", "\n")
        headings = (*HEADINGS, heading, "least to\nmost")
    cells_of = [_cells(row, trained.objective) for row in rows.iter_rows(named=True)]
    columns = zip(*cells_of, strict=True)
    shown = [(head, cells) for head, cells in zip(headings, columns, strict=False) if any(cells)]
    table = left_aligned(title, padding=0)
    for heading, _ in shown:
        justify: JustifyMethod = "left" if heading == "way" else "right"
        text = heading.replace("{target}", f"{trained.target_loss:.3g}")
        table.add_column(text, justify=justify, no_wrap=heading != "way")
    for cells in zip(*(cells for _, cells in shown), strict=True):
        table.add_row(*cells)
    if table.rows:
        yield table
    yield from refusals(trained.summary, "Not trained")


def _cells(row: dict[str, Any], objective: Objective) -> list[str]:
    several = row["seeds"] > 1
    if row["to_loss_s"] is not None:
        to_loss = [
            f"{row['to_loss_s']:.3g}",
            f"{row['to_loss_s_min']:.3g} to {row['to_loss_s_max']:.3g}" if several else "",
            f"{row['to_loss_bytes'] / 1e6:.3g}",
            f"{row['to_loss_samples']:,.0f}",
        ]
    else:
        reached = f"{row['reached']} of {row['seeds']} seeds" if row["reached"] else ""
        to_loss = [f"not in {row['end_s']:.3g}", reached, "", ""]
    metric, name = ["", ""], objective.shown
    if name is not None and row[f"end_{name}"] is not None:
        one = objective.metrics[name]
        mean, low, high = (
            f"{one.scale * row[f'end_{name}{suffix}']:{'.1f' if one.percent else '.3g'}}"
            for suffix in ("", "_min", "_max")
        )
        metric = [mean, f"{low} to {high}" if several else ""]
    return [
        row["way"],
        *to_loss,
        f"{row['end_loss']:.3g}",
        *metric,
    ]

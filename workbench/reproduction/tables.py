"""Frames as a notebook shows them: whole, with units in the heading and three significant digits.

The frame itself stays the value: `format_frames` says how IPython writes it as HTML, and nothing
else changes.
"""

from __future__ import annotations

import html
import math
from typing import Any

import polars as pl

from workbench.utils.numbers import three_digits

MOST_ROWS = 60
"""Longer frames show their first and last rows."""
_ENDS = 10
_INFINITE = {math.inf: "∞", -math.inf: "-∞"}

UNITS = {
    "s": "s",
    "ms": "ms",
    "us": "µs",
    "bytes": "bytes",
    "mb": "MB",
    "gb": "GB",
    "mbps": "Mbit/s",
    "bps": "bit/s",
    "percent": "%",
    "points": "points",
}
"""Last word of a column's name -> the unit in its heading."""


def format_frames() -> None:
    """Have the running notebook show polars frames by `as_html`; do nothing outside IPython."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is not None and shell.display_formatter is not None:
        shell.display_formatter.formatters["text/html"].for_type(pl.DataFrame, as_html)


def as_html(frame: pl.DataFrame) -> str:
    """Return a frame as an HTML table.

    Names of columns end in their unit, as in `UNITS`.
    """
    numeric = [kind.is_numeric() for kind in frame.dtypes]
    left = ' style="text-align:left"'
    heads = [
        f"<th{'' if is_number else left}>{html.escape(heading(name))}</th>"
        for name, is_number in zip(frame.columns, numeric, strict=True)
    ]

    def lines(part: pl.DataFrame) -> list[str]:
        return [
            "<tr>"
            + "".join(
                f"<td{'' if is_number else left}>{html.escape(cell(value))}</td>"
                for value, is_number in zip(row, numeric, strict=True)
            )
            + "</tr>"
            for row in part.iter_rows()
        ]

    if len(frame) <= MOST_ROWS:
        body = lines(frame)
    else:
        left_out = len(frame) - 2 * _ENDS
        gap = f'<tr><td colspan="{frame.width}">… {left_out:,} of {len(frame):,} rows</td></tr>'
        body = [*lines(frame.head(_ENDS)), gap, *lines(frame.tail(_ENDS))]
    return f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def heading(column: str) -> str:
    """Return a column's name for a person: ``iteration_s`` is ``iteration (s)``."""
    words = column.split("_")
    unit = UNITS.get(words[-1]) if len(words) > 1 else None
    return f"{' '.join(words[:-1])} ({unit})" if unit else " ".join(words)


def cell(value: Any) -> str:
    """Return a value for a person: numbers with three significant digits, nothing for null."""
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case int():
            text = f"{value:,}" if abs(value) >= 10_000 else str(value)
        case float():
            text = _INFINITE.get(value) or _number(value)
        case list() | pl.Series():
            text = ", ".join(map(cell, value))
        case _:
            text = str(value)
    return text


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isnan(value) or abs(value) >= 1e9 else three_digits(value + 0.0)

"""A comparison as the terminal shows it, and the command's options for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.clusters import Cluster
from workbench.comparison.ways.way import EQUAL
from workbench.profiles import LayerTimes
from workbench.utils import terminal
from workbench.utils.checks import UserError
from workbench.utils.files import expanded
from workbench.utils.numbers import three_digits

if TYPE_CHECKING:
    from rich.table import Table

    from workbench.comparison.answer import Answer

HEADINGS = {
    "way": "way",
    "samples_per_s": "samples\n/s",
    "simulated_samples_per_s": "simu-\nlated",
    "over_one_node": "x one\nnode",
    "samples_share": "of all\nsamples",
    "bytes_per_sample": "kB a\nsample",
    "limited_by": "limited by",
    "waiting_share": "wait-\ning",
    "memory_bytes": "GB",
    "fits": "fits",
    "joules_per_1000_samples": "J a\n1000",
    "price_per_1000_samples": "price a\nmillion",
    "update": "update",
    "notes": "notes",
}
"""Columns that are shown, those of `IF_KNOWN` only where something is known."""

MEASURED = (
    "pre-\ndicted",
    "simu-\nlated",
    "mea-\nsured",
    "predicted\nis off",
    "simulated\nis off",
    "late",
    "steal",
)

MEASURED_LEGEND = (
    "Programs run without learning: links are real, computing is replaced by waiting.",
    "Late: messages and computations that ended over 1 ms late.",
    "Steal: share of the machine's time that others took.",
)

WIDTHS = {"way": (14, 25), "limited_by": (12, 18), "update": (15, 18), "notes": (8, 9)}
"""Least and most characters of columns that wrap."""

LEAST_WANTED = (
    "waiting_share",
    "bytes_per_sample",
    "over_one_node",
    "samples_share",
    "memory_bytes",
    "joules_per_1000_samples",
    "price_per_1000_samples",
    "simulated_samples_per_s",
)
"""Columns that are left out, the first of these first, where a terminal has no space for all."""

IF_KNOWN = ("simulated_samples_per_s", "joules_per_1000_samples", "price_per_1000_samples")


def tables(frame: pl.DataFrame, title: str, width: int = 100) -> Iterator[Table]:
    """Tables of ways that are equal to SGD, of the others, and of those that cannot be used.

    Where a way runs and what it assumes is a number, and stands below its table. `width` is that of
    the terminal, in characters.
    """
    usable = frame.filter(pl.col("reason").is_null())
    exact = usable.filter(pl.col("update") == EQUAL)
    others = usable.filter(pl.col("update") != EQUAL)
    without = {name for name in IF_KNOWN if frame[name].is_null().all()}
    for rows, heading, hidden in (
        (exact, f"{title}\nUpdates equal to SGD's", without | {"update"}),
        (others, "Other updates, with what they give up", without),
    ):
        if rows.is_empty():
            continue
        notes: dict[str, int] = {}
        cells: dict[str, list[str]] = {name: [] for name in HEADINGS if name not in hidden}
        for row in rows.iter_rows(named=True):
            said = f"{row['where']}; {row['assumes']}".split("; ")
            numbers = [notes.setdefault(each, len(notes) + 1) for each in said if each]
            for name, column in cells.items():
                numbered = ", ".join(map(str, numbers))
                column.append(numbered if name == "notes" else _cell(name, row))
        widths = _widths(cells, width)
        table = terminal.table(heading, padding=0)
        for name, characters in widths.items():
            numeric = name in rows.schema and rows.schema[name].is_numeric()
            table.add_column(
                HEADINGS[name], justify="right" if numeric else "left", width=characters
            )
        for values in zip(*(cells[name] for name in widths), strict=True):
            table.add_row(*values)
        below = [f"{number:2} {note}" for note, number in notes.items()]
        if len(widths) < len(cells):
            narrow = ", ".join(HEADINGS[name] for name in cells if name not in widths)
            narrow = narrow.replace("-\n", "").replace("\n", " ")
            below.append(f"No space for: {narrow}. --csv FILE writes all columns.")
        table.caption = "\n".join(below)
        yield table
    yield from refusals(frame, "Not here")


def measured(frame: pl.DataFrame) -> Iterator[Table]:
    """A table of the ways that were measured, with how far rates are above what was measured."""
    has_rate = pl.col("measured_samples_per_s").is_not_null()
    rows = frame.filter(has_rate)
    if len(rows):
        about = "Measured on this machine: samples a second of real processes"
        table = terminal.table(about, padding=0)
        table.add_column("way", width=25)
        for heading in MEASURED:
            table.add_column(heading, justify="right")
        notes: list[str] = []
        for row in rows.iter_rows(named=True):
            rate = row["measured_samples_per_s"]
            kinds = [row["samples_per_s"], row["simulated_samples_per_s"]]
            cells = [
                *map(three_digits, [*kinds, rate]),
                *(f"{one / rate - 1:+.1%}" for one in kinds),
            ]
            late = f"{row['late']} of {row['deadlines']}"
            table.add_row(row["way"], *cells, late, f"{row['steal']:.1%}")
            notes += [f"{row['way']}: {row['measured_note']}"] if row["measured_note"] else []
        table.caption = "\n".join((*MEASURED_LEGEND, *notes))
        yield table
    unmeasured = frame.filter(~has_rate & pl.col("measured_note").is_not_null())
    yield from refusals(unmeasured.with_columns(reason=pl.col("measured_note")), "Not measured")


def refusals(frame: pl.DataFrame, title: str) -> Iterator[Table]:
    """A table of the ways that have a reason not to be used; none if there are none."""
    refused = frame.filter(pl.col("reason").is_not_null())
    if len(refused):
        table = terminal.table(title)
        table.add_column("way", no_wrap=True)
        table.add_column("why")
        for reason, ways in refused.group_by("reason", maintain_order=True).agg("way").iter_rows():
            table.add_row("\n".join(ways), reason)
        yield table


def _widths(cells: Mapping[str, Sequence[str]], width: int) -> dict[str, int]:
    """Characters of each column that a terminal has space for."""
    least, most = {}, {}
    for name, column in cells.items():
        text = "\n".join((HEADINGS[name], *column))
        longest = max(map(len, text.splitlines()))
        few, many = WIDTHS.get(name, (longest, longest))
        most[name] = min(longest, many)
        least[name] = min(longest, max(few, *map(len, text.split())))
    for name in LEAST_WANTED:
        if sum(least.values()) + len(least) < width:
            break
        least.pop(name, None)
    widths = least
    while sum(widths.values()) + len(widths) + 1 < width:
        name = min(widths, key=lambda each: widths[each] / most[each])
        if widths[name] >= most[name]:
            break
        widths[name] += 1
    return widths


_CELLS: dict[str, Callable[[Any], str]] = {
    "bytes_per_sample": lambda size: three_digits(size / 1e3),
    "memory_bytes": lambda size: f"{size / 1e9:.3g}",
    "price_per_1000_samples": lambda price: three_digits(1000 * price),
    "samples_share": lambda share: f"{share:.0%}",
    "waiting_share": lambda share: f"{share:.0%}",
    "fits": lambda fits: "yes" if fits else "no",
}


def _cell(name: str, row: Mapping[str, Any]) -> str:
    value = row[name]
    if value is None:
        return ""
    if name == "limited_by":
        return f"{value}, {row['busy_share']:.0%}"
    if name == "fits" and row["recomputation_s"]:
        return f"yes, recomputing\n{three_digits(row['recomputation_s'])} s a step"
    if name in _CELLS:
        return _CELLS[name](value)
    return three_digits(value) if isinstance(value, float) else str(value)


def by_batch(answers: Mapping[int, Answer], title: str) -> Table:
    """The fastest way by the samples in a batch."""
    table = terminal.table(title)
    for name in ("a batch\nof", "samples\n/s"):
        table.add_column(name, justify="right")
    for name in ("fastest of those equal to SGD", "limited by"):
        table.add_column(name)
    for size, found in answers.items():
        if found.way is None:
            table.add_row(f"{size:,}", "", "none fits in memory", "")
            continue
        row = found.frame.row(by_predicate=pl.col("way") == found.way, named=True)
        cells = [_cell(name, row) for name in ("samples_per_s", "way", "limited_by")]
        table.add_row(f"{size:,}", *cells)
    return table


def parse_times(texts: Sequence[str], cluster: Cluster) -> dict[str, LayerTimes]:
    """Measured layer times by node, from ``node=file``; a group's name stands for all of its nodes.

    Raises UserError: another form, an unknown node, a file that holds something else.
    """
    found = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals:
            raise UserError(f"--times {text}: give a node and a file, as in board=board.parquet")
        group = [name] if name in cluster.names else []
        group = group or [
            one for one in cluster.names if re.fullmatch(rf"{re.escape(name)}\d+", one)
        ]
        if not group:
            cluster.index(name)
        if not expanded(path).is_file():
            raise UserError(f"--times {text}: there is no file {path}")
        try:
            times = LayerTimes.load(path)
        except UserError as error:
            raise UserError(
                f"--times {text}: {error}; workbench profile --measure --save writes layer times"
            ) from None
        found.update(dict.fromkeys(group, times))
    return found

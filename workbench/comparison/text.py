"""Tables of a comparison for the terminal, and an option of its command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import polars as pl

from workbench.clusters import Cluster
from workbench.comparison.methods import EQUAL, METHODS
from workbench.comparison.table import KIND, LATER
from workbench.profiles import LayerTimes
from workbench.utils import terminal
from workbench.utils.checks import UserError
from workbench.utils.files import expanded
from workbench.utils.numbers import bytes_as_text, percent, three_digits

if TYPE_CHECKING:
    from rich.table import Table

    from workbench.comparison.compare import Comparison

MEASURED = ("simulated", "measured", "simulated is off", "late", "steal")

MEASURED_LEGEND = (
    "Programs run without learning: links are real, computing is replaced by waiting.",
    "Late: messages and computations that ended over 1 ms late.",
    "Steal: share of the machine's time that others took.",
)

Row = Mapping[str, Any]

INTERVAL = "samples/s (low-high): a 90 % interval, from prediction errors on published measurements"
ONE_NODE = "x one node: over the rate of one node on its own samples"
CLOSE = "Methods that share a letter are too close to call."
PARTS = (
    "A blank line separates methods equal to SGD on all samples, on some samples, and those with "
    "other updates: rates compare within a part."
)

NARROW = 100
"""Width of the narrowest terminal that shows all columns."""

NEED_MEMORY = (
    "that need more memory than a node has (a smaller --batch-size with --accumulate needs less)"
)
ALL = "--all shows them, --explain METHOD says what one assumes, --csv FILE writes all columns."


class Column(NamedTuple):
    """A column of the table; one without any text is left out, as is a `wide` one if narrow."""

    heading: str
    text: Callable[[Row], str]
    is_number: bool = False
    wide: bool = False


def shown(
    comparison: Comparison,
    title: str,
    width: int = NARROW,
    *,
    every: bool = False,
    explain: Sequence[str] = (),
) -> Iterator[Table | str]:
    """What a comparison found: a table and a sentence, or the explanations that are asked for.

    The table has the best method of each kind, or with `every` all methods, also beside
    explanations.
    """
    if every or not explain:
        yield from _tables(comparison, title, width, every=every)
        yield str(comparison)
    yield from map(comparison.explain, explain)


def _tables(
    comparison: Comparison, title: str, width: int, *, every: bool
) -> Iterator[Table | str]:
    frame = comparison.frame
    rows = frame.filter(pl.col("reason").is_null()) if every else comparison.best()
    if len(rows):
        yield _table(rows, title, width)
    if comparison.problem.accumulate > 1:
        yield _freshness(rows)
    if every:
        yield from refusals(frame, "Not here")
    elif left_out := _left_out(frame, rows):
        yield left_out


def _table(rows: pl.DataFrame, title: str, width: int) -> Table:
    letters = close_letters(rows)
    by_row = list(rows.with_columns(kind=KIND, close=pl.Series(letters)).iter_rows(named=True))
    headings = []
    table = terminal.table(title, padding=(0, 1, 0, 0))
    columns = [column for column in COLUMNS if width >= NARROW or not column.wide]
    for column in columns:
        cells = [column.text(row) for row in by_row]
        if any(cells):
            headings.append(column.heading)
            table.add_column(
                column.heading,
                justify="right" if column.is_number else "left",
                no_wrap=column.is_number,
                min_width=max(map(len, " ".join((column.heading, *cells)).split())),
            )
    for row, after in zip(by_row, [*by_row[1:], None], strict=True):
        cells = [column.text(row) for column in columns if column.heading in headings]
        table.add_row(*cells, end_section=after is not None and after["kind"] != row["kind"])
    notes = {
        INTERVAL: True,
        CLOSE: any(letters),
        ONE_NODE: "x one node" in headings,
        "(+N): N others of the same system are within 2 %": any(row.get("alike") for row in by_row),
        PARTS: len({row["kind"] for row in by_row}) > 1,
    }
    table.caption = "\n".join(note for note, counts in notes.items() if counts)
    return table


def close_letters(rows: pl.DataFrame) -> list[str]:
    """Letters for each row; rows that share one are all too close to call with each other."""
    close = nx.Graph()
    close.add_nodes_from(rows["method"])
    for method, others in rows.select("method", "too_close").iter_rows():
        close.add_edges_from((method, other) for other in others.split("; ") if other in close)
    place = {method: at for at, method in enumerate(rows.sort(-pl.col("samples_per_s"))["method"])}
    groups = sorted(sorted(place[method] for method in group) for group in nx.find_cliques(close))
    several = [group for group in groups if len(group) > 1]
    letters = [chr(ord("a") + at % 26) * (1 + at // 26) for at in range(len(several))]
    return [
        " ".join(letter for letter, group in zip(letters, several, strict=True) if at in group)
        for at in map(place.__getitem__, rows["method"])
    ]


def _freshness(rows: pl.DataFrame) -> str:
    """How many samples a step of each method learns from, the methods of a number together."""
    groups = rows.drop_nulls("samples_per_step").group_by("samples_per_step", maintain_order=True)
    return "\n".join(
        f"An update every {samples:,.0f} samples: {'; '.join(methods)}."
        for samples, methods in groups.agg("method").sort("samples_per_step").iter_rows()
    )


def _left_out(frame: pl.DataFrame, rows: pl.DataFrame) -> str:
    """The number of methods that are not shown, by reason."""
    others = frame.filter(~pl.col("method").is_in(rows["method"].implode()))
    usable = others.filter(pl.col("reason").is_null())
    unfit = usable.filter(~pl.col("fits").fill_null(True))
    counts = {
        "slower than another of their system, or over a hundred times as slow as the fastest": len(
            usable
        )
        - len(unfit),
        NEED_MEMORY: len(unfit),
        "not possible here": len(others) - len(usable),
    }
    phrases = [f"{count} {reason}" for reason, count in counts.items() if count]
    return f"Left out: {'; '.join(phrases)}. {ALL}" if phrases else ""


def measured(frame: pl.DataFrame) -> Iterator[Table]:
    """A table of measured and simulated rates, and one of methods that were not measured."""
    rows = frame.filter(pl.col("measured_samples_per_s").is_not_null())
    if len(rows):
        table = terminal.table("Measured on this machine: samples a second of real processes")
        table.add_column("method")
        for heading in MEASURED:
            table.add_column(heading, justify="right")
        notes: list[str] = []
        for row in rows.iter_rows(named=True):
            rate, simulated = row["measured_samples_per_s"], row["simulated_samples_per_s"]
            off = f"{100 * (simulated / rate - 1):+.1f} %"
            late = f"{row['late']} of {row['deadlines']}"
            cells = (three_digits(simulated), three_digits(rate), off, late)
            table.add_row(row["method"], *cells, percent(row["steal"], 1))
            notes += [f"{row['method']}: {row['reason']}"] if row["reason"] else []
        table.caption = "\n".join((*MEASURED_LEGEND, *notes))
        yield table
    yield from refusals(frame.filter(pl.col("measured_samples_per_s").is_null()), "Not measured")


def refusals(frame: pl.DataFrame, title: str) -> Iterator[Table]:
    """A table of methods with the reason why they cannot be used, if there are any."""
    refused = frame.filter(pl.col("reason").is_not_null())
    if len(refused):
        table = terminal.table(title)
        table.add_column("method", no_wrap=True)
        table.add_column("why")
        for reason, methods in (
            refused.group_by("reason", maintain_order=True).agg("method").iter_rows()
        ):
            table.add_row("\n".join(methods), reason)
        yield table


def _method(row: Row) -> str:
    alike = f" (+{row['alike']})" if row.get("alike") else ""
    title = METHODS[row["method"]].title
    return f"{row['method']}{alike}{title and f': {title}'}"


def _rate(row: Row) -> str:
    low, high = (_two_digits(row[f"{end}_samples_per_s"]) for end in ("low", "high"))
    return f"{_three_digits(row['samples_per_s'])} ({low}-{high})"


def _limit(row: Row) -> str:
    return f"{row['limited_by']}, {percent(row['busy_share'])}"


def _memory(row: Row) -> str:
    if row["memory_bytes"] is None:
        return ""
    text = bytes_as_text(row["memory_bytes"])
    return f"{text}, too much" if row["fits"] is False else text


def gives_up(row: Row) -> str:
    """Differences of a method from SGD on all samples where they are."""
    parts = [] if row["update"] == EQUAL else [row["update"]]
    if row["samples_share"] < 1:
        parts.append(f"learns from {percent(row['samples_share'])} of the samples")
    if row["raw_samples_move"]:
        parts.append("samples leave their nodes")
    if LATER in row["assumes"]:
        parts.append(LATER)
    return "; ".join(parts)


def _three_digits(value: float | None) -> str:
    """Three digits, zeros at the end too, so that a column is as exact throughout."""
    if value is None:
        return ""
    return f"{value:#.3g}".rstrip(".") if abs(value) < 999.5 else f"{value:,.0f}"


def _two_digits(value: float) -> str:
    return f"{value:#.2g}".rstrip(".") if value < 99.5 else f"{float(f'{value:.2g}'):,.0f}"


def _price(row: Row) -> str:
    price = row["price_per_1000_samples"]
    return _three_digits(None if price is None else 1000 * price)


COLUMNS = (
    Column("method", _method),
    Column("samples/s", _rate, is_number=True),
    Column("close", lambda row: row["close"]),
    Column("x one node", lambda row: _three_digits(row["over_one_node"]), True, wide=True),
    Column("limited by", _limit),
    Column("memory", _memory),
    Column("J a 1000", lambda row: _three_digits(row["joules_per_1000_samples"]), True, wide=True),
    Column("price a million", _price, is_number=True, wide=True),
    Column("what it gives up", gives_up),
)


def by_batch(comparisons: Mapping[int, Comparison], title: str) -> Table:
    """Table of the fastest method by batch size."""
    table = terminal.table(title)
    for name in ("a batch\nof", "samples\n/s"):
        table.add_column(name, justify="right")
    for name in ("fastest of those equal to SGD", "limited by"):
        table.add_column(name)
    for size, comparison in comparisons.items():
        if comparison.method is None:
            table.add_row(f"{size:,}", "", "none fits in memory", "")
            continue
        own_row = pl.col("method") == comparison.method
        row = comparison.frame.row(by_predicate=own_row, named=True)
        table.add_row(f"{size:,}", _rate(row), _method(row), _limit(row))
    return table


def parse_times(texts: Sequence[str], cluster: Cluster) -> dict[str, LayerTimes]:
    """Measured layer times by node, from ``node=file``; a group's name stands for all of its nodes.

    Raises UserError: another form, an unknown node, a file without layer times.
    """
    by_node = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals:
            raise UserError(f"--times {text}: give a node and a file, as in board=board.parquet")
        group = [name] if name in cluster.names else []
        group = group or [
            node for node in cluster.names if re.fullmatch(rf"{re.escape(name)}\d+", node)
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
        by_node.update(dict.fromkeys(group, times))
    return by_node

"""Tables of a comparison for the terminal, and an option of its command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import networkx as nx
import polars as pl

from workbench.clusters import Cluster
from workbench.comparison.methods.method import EQUAL
from workbench.profiles import LayerTimes
from workbench.utils import terminal
from workbench.utils.checks import UserError
from workbench.utils.files import expanded
from workbench.utils.numbers import bytes_as_text, three_digits

if TYPE_CHECKING:
    from rich.table import Table

    from workbench.comparison.compare import Comparison

MEASURED = ("simulated", "measured", "simulated is off", "late", "steal")

MEASURED_LEGEND = (
    "Programs run without learning: links are real, computing is replaced by waiting.",
    "Late: messages and computations that ended over 1 ms late.",
    "Steal: share of the machine's time that others took.",
)

HEADINGS = {
    "method": "method",
    "samples_per_s": "samples/s",
    "close": "close",
    "over_one_node": "x one node",
    "limited_by": "limited by",
    "memory": "memory",
    "joules_per_1000_samples": "J a 1000",
    "price_per_1000_samples": "price a million",
    "gives_up": "what it gives up",
}
"""Column -> its heading in the terminal."""

INTERVAL = "samples/s (low-high): a 90 % interval, from prediction errors on published measurements"
ONE_NODE = "x one node: over the rate of one node on its own samples"
CLOSE = "Methods that share a letter are too close to call."

IF_KNOWN = ("joules_per_1000_samples", "price_per_1000_samples")
"""Columns that are shown where nodes state watts and prices."""

NARROW = 100
"""Width of the narrowest terminal that shows `IF_KNOWN` and ``over_one_node``."""

NEED_MEMORY = (
    "that need more memory than a node has (a smaller --batch-size with --accumulate needs less)"
)
ALL = "--all shows them, --explain METHOD says what one assumes, --csv FILE writes all columns."


def shown(
    comparison: Comparison, title: str, width: int = NARROW, *, every: bool = False
) -> Iterator[Table | str]:
    """The table of a comparison: the best method of each kind, or with `every` all methods."""
    frame = comparison.frame
    rows = frame.filter(pl.col("reason").is_null()) if every else comparison.best()
    yield _table(rows, title, width)
    if comparison.problem.accumulate > 1:
        yield _freshness(rows)
    if every:
        yield from refusals(frame, "Not here")
    elif left_out := _left_out(frame, rows):
        yield left_out


def _table(rows: pl.DataFrame, title: str, width: int) -> Table:
    letters = close_letters(rows)
    without = {name for name in IF_KNOWN if width < NARROW or rows[name].is_null().all()}
    if rows["memory_bytes"].is_null().all():
        without.add("memory")
    if width < NARROW or rows["over_one_node"].is_null().all():
        without.add("over_one_node")
    if not any(letters):
        without.add("close")
    rows = rows.with_columns(close=pl.Series(letters, dtype=pl.String))
    shown = [name for name in HEADINGS if name not in without]
    cells = [[_cell(name, row) for name in shown] for row in rows.iter_rows(named=True)]
    table = terminal.table(title, padding=(0, 1, 0, 0))
    for name, column in zip(shown, zip(*cells, strict=True), strict=True):
        numeric = name in rows.schema and rows.schema[name].is_numeric()
        table.add_column(
            HEADINGS[name],
            justify="right" if numeric else "left",
            no_wrap=numeric,
            min_width=max(map(len, " ".join((HEADINGS[name], *column)).split())),
        )
    for row in cells:
        table.add_row(*row)
    notes = [INTERVAL, CLOSE] if any(letters) else [INTERVAL]
    if "over_one_node" in shown:
        notes.append(ONE_NODE)
    if "alike" in rows.columns and rows["alike"].sum():
        notes.append("(+3): as many others of the same system are within 2 %")
    table.caption = "\n".join(notes)
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
    return [
        " ".join(_letter(at) for at, group in enumerate(several) if place[method] in group)
        for method in rows["method"]
    ]


def _letter(at: int) -> str:
    return chr(ord("a") + at % 26) * (1 + at // 26)


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
            late = f"{row['late']} of {row['deadlines']}"
            cells = [three_digits(simulated), three_digits(rate), f"{simulated / rate - 1:+.1%}"]
            table.add_row(row["method"], *cells, late, f"{row['steal']:.1%}")
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


def _cell(name: str, row: Mapping[str, Any]) -> str:
    texts = {
        "method": _method,
        "samples_per_s": _rate,
        "limited_by": _limit,
        "memory": _memory,
        "gives_up": gives_up,
    }
    if name in texts:
        return texts[name](row)
    value = row[name]
    if isinstance(value, float):
        value *= 1000 if name == "price_per_1000_samples" else 1
        return _three_digits(value)
    return value or ""


def _method(row: Mapping[str, Any]) -> str:
    return f"{row['method']} (+{row['alike']})" if row.get("alike") else str(row["method"])


def _rate(row: Mapping[str, Any]) -> str:
    low, high = (_two_digits(row[f"{end}_samples_per_s"]) for end in ("low", "high"))
    return f"{_three_digits(row['samples_per_s'])} ({low}-{high})"


def _limit(row: Mapping[str, Any]) -> str:
    return f"{row['limited_by']}, {row['busy_share']:.0%}"


def _three_digits(value: float) -> str:
    """Three digits, zeros at the end too, so that a column is as exact throughout."""
    return f"{value:#.3g}".rstrip(".") if abs(value) < 999.5 else f"{value:,.0f}"


def _two_digits(value: float) -> str:
    return f"{value:#.2g}".rstrip(".") if value < 99.5 else f"{float(f'{value:.2g}'):,.0f}"


def _memory(row: Mapping[str, Any]) -> str:
    if row["memory_bytes"] is None:
        return ""
    text = bytes_as_text(row["memory_bytes"])
    return f"{text}, too much" if row["fits"] is False else text


def gives_up(row: Mapping[str, Any]) -> str:
    """Differences of a method from SGD on all samples where they are."""
    parts = [] if row["update"] == EQUAL else [row["update"]]
    if row["samples_share"] < 1:
        parts.append(f"learns from {row['samples_share']:.0%} of the samples")
    if row["raw_samples_move"]:
        parts.append("samples leave their nodes")
    return "; ".join(parts)


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
        cells = [_cell(name, row) for name in ("samples_per_s", "method", "limited_by")]
        table.add_row(f"{size:,}", *cells)
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

"""The scorecard as text: a table for the terminal, JSON for programs, Markdown for notebooks."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.claims.rule import VERDICTS
from workbench.claims.scorecard import ROLES, Row, Scorecard, text_of
from workbench.names import choose

if TYPE_CHECKING:
    from rich.text import Text

STYLES: Mapping[str, str] = {
    "near": "green",
    "holds": "green",
    "trend": "yellow",
    "not reproduced": "red",
    "not run": "dim",
    "input": "cyan",
}
EXPLAINED = ("trend", "not reproduced", "not run")
NARROWEST, PIPED_WIDTH = 80, 100


def render(card: Scorecard, format: str = "table") -> str:
    """Return a scorecard as text.

    `format` is ``"table"`` (coloured where standard output is a terminal), ``"json"`` (a list of
    objects, the fields of `Row`) or ``"markdown"``; another raises an UnknownNameError.
    """
    return choose("format", format, FORMATS)(card)


def terminal_table(card: Scorecard) -> str:
    """Return the scorecard for a terminal: a line per claim by role and source, then the totals.

    What is missed or did not run has a second line that says why.
    """
    from rich.console import Console

    width = PIPED_WIDTH
    if sys.stdout.isatty():
        width = max(NARROWEST, min(PIPED_WIDTH, shutil.get_terminal_size().columns))
    console = Console(file=sys.stdout, width=width, highlight=False)
    with console.capture() as capture:
        for line in _lines(card, width):
            console.print(line, soft_wrap=True)
    return capture.get()


def _lines(card: Scorecard, width: int) -> Iterator[Text]:
    from rich.text import Text

    for role, meaning in ROLES.items():
        rows = [row for row in card.rows if row.role == role]
        if rows:
            yield Text(f"{role}: {meaning}", style="bold")
            yield from _rows(rows, width)
            yield Text("")
    columns = [f"{name:>{max(len(name), 5)}}" for name in (*VERDICTS, "all")]
    yield Text(f"{'totals':<10} {'  '.join(columns)}", style="bold")
    for role, *counts in card.totals():
        cells = [f"{count:>{len(column)}}" for count, column in zip(counts, columns, strict=True)]
        yield Text(f"{role:<10} {'  '.join(cells)}")
    yield Text("")
    for note in card.notes():
        yield from (Text(line) for line in textwrap.wrap(note, width, break_long_words=False))


def _rows(rows: Sequence[Row], width: int) -> Iterator[Text]:
    """Lay rows out by source, in the order of first appearance."""
    from rich.text import Text

    id_width = max(len(row.name) for row in rows)
    head = f"  {'':<{id_width}} {'paper':>15} {'ours':>10} {'diff.':>8}  "
    longest = max((len(row.recorded_text) for row in rows if row.recorded_verdict), default=0)
    beside = bool(longest) and len(head) + 16 + longest <= width  # else on a line of its own
    yield Text(f"{head}verdict{'         recorded' if beside else ''}", style="dim")
    sources: dict[str, list[Row]] = {}
    for row in rows:
        sources.setdefault(f"{row.system}, {row.source}", []).append(row)
    for source, group in sources.items():
        yield Text(source, style="italic")
        said = ""
        for row in group:
            off = "" if row.difference is None else text_of(row.difference, sign="+")
            numbers = f"{row.paper_text:>15} {row.ours_text:>10} {off:>8}"
            line = Text(f"  {row.name:<{id_width}} {numbers}  ")
            line.append(row.verdict, style=STYLES[row.verdict])
            if row.recorded_verdict and beside:
                line.append(f"{'':<{16 - len(row.verdict)}}{row.recorded_text}")
            yield line
            if row.verdict in EXPLAINED and row.reason != said:
                states = f"{row.metric}: " if row.check == "order" else ""
                yield from _indented(states + row.reason, width)
                said = row.reason
            value = [] if beside or not row.recorded_verdict else [row.recorded_text]
            if recorded := [*value, *([row.recorded_detail] if row.recorded_detail else [])]:
                yield from _indented(f"recorded: {'; '.join(recorded)}", width)


def _indented(text: str, width: int) -> Iterator[Text]:
    from rich.text import Text

    indent = " " * 6
    lines = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)
    yield from map(Text, lines)


FORMATS: Mapping[str, Callable[[Scorecard], str]] = {
    "table": terminal_table,
    "json": Scorecard.to_json,
    "markdown": Scorecard.to_markdown,
}

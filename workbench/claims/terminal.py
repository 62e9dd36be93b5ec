"""The scorecard for a terminal, coloured where there is one."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from workbench.claims import words
from workbench.claims.card import Scorecard
from workbench.claims.roles import ROLES
from workbench.claims.row import Row
from workbench.claims.rule import VERDICTS

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


def table(card: Scorecard) -> str:
    """Return the scorecard for a terminal: by role and source, totals, what is missing."""
    width = PIPED_WIDTH
    if sys.stdout.isatty():
        width = max(NARROWEST, min(PIPED_WIDTH, shutil.get_terminal_size().columns))
    console = Console(file=sys.stdout, width=width, highlight=False)
    with console.capture() as capture:
        for line in _lines(card, width):
            console.print(line, soft_wrap=True)
    return capture.get()


def _lines(card: Scorecard, width: int) -> Iterator[Text]:
    for role, meaning in ROLES.items():
        rows = [row for row in card.rows if row.role == role]
        if rows:
            yield Text(f"{role}: {meaning}", style="bold")
            yield from _rows(rows, width)
            yield Text("")
    columns = [f"{name:>{max(len(name), 5)}}" for name in (*VERDICTS, "all")]
    yield Text(f"{'totals':<10} {'  '.join(columns)}", style="bold")
    for role, *counts in words.totals(card):
        cells = [f"{count:>{len(column)}}" for count, column in zip(counts, columns, strict=True)]
        yield Text(f"{role:<10} {'  '.join(cells)}")
    yield Text("")
    for note in words.notes(card):
        yield from (Text(line) for line in textwrap.wrap(note, width, break_long_words=False))


def _rows(rows: Sequence[Row], width: int) -> Iterator[Text]:
    """Lay rows out by source, in the order in which the sources first come up."""
    id_width = max(len(words.name(row)) for row in rows)
    head = f"  {'':<{id_width}} {'paper':>15} {'ours':>10} {'diff.':>8}  verdict"
    yield Text(head, style="dim")
    sources: dict[str, list[Row]] = {}
    for row in rows:
        sources.setdefault(f"{row.system}, {row.source}", []).append(row)
    for source, group in sources.items():
        yield Text(source, style="italic")
        said = ""
        for row in group:
            numbers = f"{words.paper(row):>15} {words.ours(row):>10} {words.difference(row):>8}"
            line = Text(f"  {words.name(row):<{id_width}} {numbers}  ")
            yield line.append(row.verdict, style=STYLES[row.verdict])
            if row.check == "order":
                yield from _wrapped(row.metric, width, "dim")
            if row.verdict in EXPLAINED and row.reason != said:
                yield from _wrapped(row.reason, width, "")
                said = row.reason


def _wrapped(text: str, width: int, style: str) -> Iterator[Text]:
    indent = " " * 6
    for line in textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent):
        yield Text(line, style=style)

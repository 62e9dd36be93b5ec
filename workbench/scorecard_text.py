"""The scorecard as text: a table for the terminal, JSON for programs, Markdown for notebooks."""

from __future__ import annotations

import dataclasses
import json
import shutil
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from workbench.claims import ROLES, VERDICTS

if TYPE_CHECKING:
    from workbench.claims import Row, Scorecard

STYLES: Mapping[str, str] = {
    "near": "green",
    "holds": "green",
    "trend": "yellow",
    "not reproduced": "red",
    "not run": "dim",
    "input": "cyan",
}
EXPLAINED = ("trend", "not reproduced", "not run")
SYMBOLS: Mapping[str, str] = {
    "percent": "%",
    "percentage points": "pp",
    "exponent": "",
    "count": "",
}
CLAIM_COLUMNS = ("claim", "source", "paper", "ours", "difference", "verdict", "reason")
NAMED = 5  # of a list of claims, before the rest is counted
NARROWEST, PIPED_WIDTH = 80, 100


_SHORT_CELL = 18


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


def to_json(card: Scorecard) -> str:
    """Return a JSON list with one object per claim; its keys are the fields of `Row`."""
    rows = [dataclasses.asdict(row) for row in card.rows]
    return json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def markdown(card: Scorecard) -> str:
    """Return the scorecard as Markdown: a table per role, the totals, what is missing."""
    parts = []
    for role, meaning in ROLES.items():
        rows = [row for row in card.rows if row.role == role]
        if rows:
            body = [
                (
                    f"`{row.id}`",
                    row.source,
                    row.metric if row.check == "order" else _paper(row),
                    _ours(row),
                    _difference(row),
                    row.verdict,
                    row.reason,
                )
                for row in rows
            ]
            shown = _markdown_table(CLAIM_COLUMNS, body, right=(3, 4))
            parts.append(f"**{role}**: {meaning}\n\n{shown}")
    header = ("totals", *VERDICTS, "all")
    parts.append(_markdown_table(header, _totals(card), right=range(1, len(header))))
    parts.append("\n".join(f"- {note}" for note in _notes(card)))
    return "\n\n".join(parts) + "\n"


FORMATS: Mapping[str, Callable[[Scorecard], str]] = {
    "table": table,
    "json": to_json,
    "markdown": markdown,
}


def _lines(card: Scorecard, width: int) -> Iterator[Text]:
    for role, meaning in ROLES.items():
        rows = [row for row in card.rows if row.role == role]
        if rows:
            yield Text(f"{role}: {meaning}", style="bold")
            yield from _rows(rows, width)
            yield Text("")
    columns = [f"{name:>{max(len(name), 5)}}" for name in (*VERDICTS, "all")]
    yield Text(f"{'totals':<10} {'  '.join(columns)}", style="bold")
    for role, *counts in _totals(card):
        cells = [f"{count:>{len(column)}}" for count, column in zip(counts, columns, strict=True)]
        yield Text(f"{role:<10} {'  '.join(cells)}")
    yield Text("")
    for note in _notes(card):
        yield from (Text(line) for line in textwrap.wrap(note, width, break_long_words=False))


def _rows(rows: Sequence[Row], width: int) -> Iterator[Text]:
    """Lay rows out by source, in the order in which the sources first come up."""
    id_width = max(len(_name(row)) for row in rows)
    head = f"  {'':<{id_width}} {'paper':>15} {'ours':>10} {'diff.':>8}  verdict"
    yield Text(head, style="dim")
    sources: dict[str, list[Row]] = {}
    for row in rows:
        sources.setdefault(f"{row.system}, {row.source}", []).append(row)
    for source, group in sources.items():
        yield Text(source, style="italic")
        said = ""
        for row in group:
            numbers = f"{_paper(row):>15} {_ours(row):>10} {_difference(row):>8}"
            line = Text(f"  {_name(row):<{id_width}} {numbers}  ")
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


def _totals(card: Scorecard) -> list[tuple[str, ...]]:
    """Return a line per role and one for all: how many claims got each verdict, and in total."""
    roles: Sequence[str | None] = [role for role in ROLES if card.total(role)] + [None]
    return [
        (role or "all", *(str(card.total(role, one)) for one in VERDICTS), str(card.total(role)))
        for role in roles
    ]


def _notes(card: Scorecard) -> Iterator[str]:
    """Say how far off the percent claims are, at which scale, and what is not there."""
    means = [
        f"{role} {statistics.fmean(errors):.2f} points (n = {len(errors)})"
        for role in ROLES
        if (errors := card.percent_errors(role))
    ]
    if means:
        yield f"Mean absolute error of the percent claims: {', '.join(means)}."
    for system, scale in card.scales.items():
        yield f"{system}: results made at {scale} scale."
    for system, command in card.missing.items():
        yield f"{system}: no stored results. To make them: {command}"
    if card.unanswered:
        named = ", ".join(card.unanswered[:NAMED])
        more = len(card.unanswered) - NAMED
        yield (
            "Stored results without an answer (made with other parameters, or a gap in answers.py):"
            f" {named}{f' and {more} more' if more > 0 else ''}."
        )
    if card.not_built:
        counts = ", ".join(f"{system} ({count} claims)" for system, count in card.not_built.items())
        yield f"Not built yet: {counts}."


def _name(row: Row) -> str:
    return row.id.removeprefix(f"{row.system}.")


def _paper(row: Row) -> str:
    if row.check == "order":
        return "true"
    sign = {"at_most": "<= ", "at_least": ">= "}.get(row.check, "")
    value = row.paper if isinstance(row.paper, str) else _number(row.paper)
    return f"{sign}{value} {SYMBOLS.get(row.unit, row.unit)}".rstrip()


def _ours(row: Row) -> str:
    if row.ours is None:
        return "-"
    return str(row.ours).lower() if isinstance(row.ours, bool) else _number(row.ours)


def _difference(row: Row) -> str:
    return "" if row.difference is None else _number(row.difference, sign="+")


def _number(value: float, sign: str = "") -> str:
    """Write a number with the places that its size lets count: 0.084, 42.86, 153.4, 1097."""
    size = abs(value)
    if 0 < size < 1e-3:
        return f"{value:{sign}.2g}"
    places = 3 if size < 1 else 2 if size < 100 else 1 if size < 1000 else 0
    text = f"{value:{sign}.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def _markdown_table(
    header: Sequence[str], body: Iterable[Sequence[str]], right: Iterable[int]
) -> str:
    aligned = set(right)
    rule = ["--:" if column in aligned else "---" for column in range(len(header))]
    cells = [[_unbroken(cell.replace("|", "\\|")) for cell in row] for row in body]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(header), rule, *cells])


def _unbroken(cell: str) -> str:
    """Hold a short cell, such as a number and its unit, on one line."""
    return cell.replace(" ", "\N{NO-BREAK SPACE}") if len(cell) <= _SHORT_CELL else cell

"""The scorecard for a terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import typer

from workbench.reproduction.claims import CAUSES, MET, VERDICTS
from workbench.reproduction.scorecard.card import ROLES, Row, Scorecard, text_of
from workbench.utils.checks import choose

COLOURS = {
    "near": "green",
    "holds": "green",
    "trend": "yellow",
    "not reproduced": "red",
    "not run": "bright_black",
    "input": "cyan",
}
NARROWEST, WIDEST = 80, 100
WEAKER = "what weaker evidence gives: this machine's run, or a training too small to judge by"
_NAMED = 3  # claims that did not run, before the rest is counted


def render(card: Scorecard, format: str = "table") -> str:
    """Return a scorecard as text.

    `format` is ``"table"`` (coloured where standard output is a terminal), ``"json"`` or
    ``"markdown"``; another raises an UnknownNameError.
    """
    return choose("format", format, FORMATS)(card)


def table(card: Scorecard) -> str:
    """Return the scorecard for a terminal: a line per claim by system and source, then the totals.

    What is missed has further lines that say why.
    """
    width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))
    systems = groupby(card.rows, lambda row: row.claim.system)
    lines = [line for system, rows in systems for line in _of_system(system, [*rows], width)]
    words = {name: meaning for name, meaning in ROLES.items() if name in card.totals()}
    words |= {
        f"cause {name}": text for name, text in CAUSES.items() if name in card.totals()["all"]
    }
    if any(row.weaker_evidence for row in card.rows):
        words["weaker"] = WEAKER
    for text in (*card.remarks(), *(f"{word}: {meaning}" for word, meaning in words.items())):
        lines += _wrapped(text, width)
    lines += ["", *_totals(card)]
    return "\n".join(lines) + "\n"


def _of_system(system: str, rows: Sequence[Row], width: int) -> Iterator[str]:
    """Yield the lines of a system: its rows by source, then what did not run, by reason."""
    judged = [row for row in rows if row.verdict != "input"]
    met = sum(row.verdict in MET for row in judged)
    waiting, groups = defaultdict[str, list[str]](list), defaultdict[str, list[Row]](list)
    for row in rows:
        if row.verdict == "not run":
            waiting[row.reason].append(row.name)
        if row.verdict != "not run" or row.weaker_evidence:
            groups[", ".join(filter(None, (row.claim.source, row.evidence)))].append(row)
    not_run = sum(map(len, waiting.values()))
    title = f"{system}: {met} of {len(judged)} claims are met"
    yield _styled(f"{title}, {not_run} not run" if not_run else title, bold=True)
    header = ("", "paper", "ours", "verdict", "weaker")
    cells = [header, *(_terminal_cells(row) for group in groups.values() for row in group)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if groups:
        yield _styled(_line(header, widths), dim=True)
    explained: dict[str, str] = {}
    for heading, group in groups.items():
        yield _styled(f"  {heading}", italic=True)
        for row in group:
            yield _line(_terminal_cells(row), widths, fg=COLOURS[row.verdict])
            for reason in _why(row, explained):
                yield from _wrapped(reason, width, indent=6)
    for reason, names in waiting.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield from _wrapped(f"not run: {', '.join(names[:_NAMED])}{more}: {reason}", width, 2)
    yield ""


def _terminal_cells(row: Row) -> tuple[str, ...]:
    verdict = f"{row.verdict}, fit" if row.role == "fit" else row.verdict
    weaker = text_of(row.weaker) if row.weaker_evidence else ""
    return row.name, row.paper_text, row.ours_text, verdict, weaker


def _line(cells: Sequence[str], widths: Sequence[int], **style: Any) -> str:
    """Return a line of the table, its verdict in this style."""
    left = (True, False, False, True, False)
    name, paper, ours, verdict, weaker = (
        f"{cell:<{width}}" if is_left else f"{cell:>{width}}"
        for cell, width, is_left in zip(cells, widths, left, strict=True)
    )
    return f"    {name}  {paper}  {ours}  {_styled(verdict, **style)}  {weaker}".rstrip()


def _wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    spaces = " " * indent
    return textwrap.wrap(
        text,
        width,
        initial_indent=spaces,
        subsequent_indent=spaces,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _styled(text: str, **style: Any) -> str:
    """Return text in the style of a terminal, where standard output is one."""
    return typer.style(text, **style) if sys.stdout.isatty() else text


def _why(row: Row, explained: dict[str, str]) -> list[str]:
    """Return why a claim is missed; a cause that is printed already is named by its claim."""
    lines = []
    if row.cause:
        states = f"{row.claim.metric}: " if row.claim.check == "order" else ""
        first = explained.setdefault(row.cause.why, row.name)
        why = row.cause.why if first == row.name else f"as for {first}"
        lines = [f"{states}{row.reason}", f"cause {row.cause.kind}: {why}"]
    return [*lines, *([f"but: {row.answer.caveat}"] if row.answer.caveat else [])]


def _totals(card: Scorecard) -> Iterator[str]:
    """Yield the lines of counts: of verdicts, of all claims, of causes of misses."""
    columns = (*VERDICTS, "all", "cause", *CAUSES)
    yield "  ".join([f"{'totals':<10}", *columns])
    for name, counts in card.totals().items():
        numbers = {"cause": "", **counts}
        cells = (f"{numbers.get(column, 0):>{len(column)}}" for column in columns)
        yield "  ".join([f"{name:<10}", *cells])


FORMATS: Mapping[str, Callable[[Scorecard], str]] = {
    "table": table,
    "json": Scorecard.to_json,
    "markdown": Scorecard.to_markdown,
}

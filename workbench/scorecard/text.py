"""The scorecard as text: a table for the terminal, JSON for programs, Markdown for notebooks."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.claims import CAUSES, MET
from workbench.scorecard.scorecard import ROLES, Row, Scorecard
from workbench.utils.checks import choose

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
NARROWEST, PIPED_WIDTH = 80, 100
_INDENT = " " * 6
_HEADER = ("", "paper", "ours", "verdict", "beside")


def render(card: Scorecard, format: str = "table") -> str:
    """Return a scorecard as text.

    `format` is ``"table"`` (coloured where standard output is a terminal), ``"json"`` (a list of
    objects, the fields of `Row`) or ``"markdown"``; another raises an UnknownNameError.
    """
    return choose("format", format, FORMATS)(card)


def terminal_table(card: Scorecard) -> str:
    """Return the scorecard for a terminal: a line per claim by system and source, then the totals.

    What is missed or did not run has further lines that say why.
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

    for system in dict.fromkeys(row.system for row in card.rows):
        rows = [row for row in card.rows if row.system == system]
        yield from _of_system(rows, card.missing.get(system), width)
        yield Text("")
    for note in card.notes():
        yield from _wrapped(note, width, break_long_words=False)
    yield Text("")
    yield from _explained(card, width)
    yield Text("")
    names = tuple(card.counts())
    columns = [f"{name:>{max(len(name), 5)}}" for name in names]
    verdicts = "  ".join(columns[: -len(CAUSES)])
    yield Text(f"{'':<11}{'':{len(verdicts)}}   causes of misses", style="dim")
    yield Text(f"{'totals':<11}{'  '.join(columns)}", style="bold")
    for name, counts in card.totals():
        cells = [f"{n:>{len(column)}}" for n, column in zip(counts.values(), columns, strict=True)]
        yield Text(f"{name:<11}{'  '.join(cells)}", style="bold" if name == "all" else "")


def _explained(card: Scorecard, width: int) -> Iterator[Text]:
    """What the words of the table mean, as far as they occur."""
    words = {name: meaning for name, meaning in ROLES.items() if card.counts(role=name)["all"]}
    words |= {f"cause {name}": text for name, text in CAUSES.items() if card.counts()[name]}
    if any(row.beside_evidence for row in card.rows):
        words["beside"] = "by weaker evidence: this machine's run, a training too small to judge by"
    for name, meaning in words.items():
        yield from _wrapped(f"{name}: {meaning}", width, "dim")


def _of_system(rows: Sequence[Row], command: str | None, width: int) -> Iterator[Text]:
    """Lay a system's rows out by source, in the order of first appearance.

    `command` makes its results, where none are stored: what did not run is then counted alone.
    """
    from rich.text import Text

    judged = [row for row in rows if row.verdict != "input"]
    met = sum(row.verdict in MET for row in judged)
    usual = _most(row.evidence for row in judged)
    if command and not usual:
        yield Text(f"{rows[0].system}: not run yet ({len(judged)} claims)", "bold")
        yield Text(f"  To run it: {command}", style="dim")
        return
    reasons = Counter(row.reason for row in rows if row.verdict == "not run")
    waits = f", {reasons.total()} not run" if reasons else ""
    yield Text(f"{rows[0].system}: {met} of {len(judged)} claims are met{waits}", "bold")
    if command:
        rows = [row for row in rows if row.verdict != "not run"]
        for reason, count in reasons.items():
            yield from _wrapped(f"{count} not run: {reason}", width, initial_indent="  ")
    if usual:
        yield Text(f"  Judged by: {usual}, unless another is named.", "dim")
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(_HEADER, *cells, strict=True)]
    yield Text(_line(_HEADER, widths), style="dim")
    for source in dict.fromkeys(row.source for row in rows):
        group = [(row, line) for row, line in zip(rows, cells, strict=True) if row.source == source]
        here = _most(row.evidence for row, _ in group) or usual
        yield Text(source if here == usual else f"{source}: {here}", style="italic")
        before: list[str] = []
        for row, line in group:
            text, start = Text(_line(line, widths)), sum(widths[:3]) + 8
            text.stylize(STYLES[row.verdict], start, start + len(row.verdict))
            yield text
            why = _why(row)
            if row.evidence not in ("", here):
                why.append(f"judged by: {row.evidence}")
            said = [reason for reason in why if reason not in before]
            for reason in said or ["as above"] * bool(why):
                yield from _wrapped(
                    reason, width, initial_indent=_INDENT, subsequent_indent=_INDENT
                )
            before = why


def _most(names: Iterable[str]) -> str:
    """The most frequent name; empty where there is none."""
    counts = Counter(name for name in names if name)
    return counts.most_common(1)[0][0] if counts else ""


def _cells(row: Row) -> tuple[str, ...]:
    verdict = f"{row.verdict}, fit" if row.role == "fit" else row.verdict
    return (row.name, row.paper_text, row.ours_text, verdict, row.beside_text)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, paper, ours, verdict, beside = cells
    shown = f"  {name:<{widths[0]}}  {paper:>{widths[1]}}  {ours:>{widths[2]}}  "
    return f"{shown}{verdict:<{widths[3]}}  {beside:>{widths[4]}}".rstrip()


def _why(row: Row) -> list[str]:
    """Why a claim is missed or did not run, and what is to be known in any case."""
    caveat = [f"but: {row.caveat}"] if row.caveat else []
    if row.verdict in MET or row.verdict == "input":
        return caveat
    states = f"{row.metric}: " if row.check == "order" else ""
    cause = [f"cause {row.cause}: {row.cause_reason}"] if row.cause else []
    return [states + row.reason, *cause, *caveat]


def _wrapped(text: str, width: int, style: str = "", **how: Any) -> Iterator[Text]:
    from rich.text import Text

    return (Text(line, style) for line in textwrap.wrap(text, width, **how))


FORMATS: Mapping[str, Callable[[Scorecard], str]] = {
    "table": terminal_table,
    "json": Scorecard.to_json,
    "markdown": Scorecard.to_markdown,
}

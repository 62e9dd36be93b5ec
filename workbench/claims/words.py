"""What every form of the scorecard says: cells of a row, totals, notes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from workbench.claims.card import Scorecard
from workbench.claims.roles import ROLES
from workbench.claims.row import Row
from workbench.claims.rule import VERDICTS

SYMBOLS: Mapping[str, str] = {
    "percent": "%",
    "percentage points": "pp",
    "exponent": "",
    "count": "",
}
NAMED = 5  # of a list of claims, before the rest is counted


def name(row: Row) -> str:
    """Return a claim's id without its system."""
    return row.id.removeprefix(f"{row.system}.")


def paper(row: Row) -> str:
    """Write the paper's value with its bound and unit; ``true`` for an order."""
    if row.check == "order":
        return "true"
    sign = {"at_most": "<= ", "at_least": ">= "}.get(row.check, "")
    value = row.paper if isinstance(row.paper, str) else _number(row.paper)
    return f"{sign}{value} {SYMBOLS.get(row.unit, row.unit)}".rstrip()


def ours(row: Row) -> str:
    """Write our value; a dash where there is none."""
    if row.ours is None:
        return "-"
    return str(row.ours).lower() if isinstance(row.ours, bool) else _number(row.ours)


def difference(row: Row) -> str:
    """Write ours less the paper's with its sign; nothing where one is no number."""
    return "" if row.difference is None else _number(row.difference, sign="+")


def _number(value: float, sign: str = "") -> str:
    """Write a number with the places that its size lets count: 0.084, 42.86, 153.4, 1097."""
    size = abs(value)
    if 0 < size < 1e-3:
        return f"{value:{sign}.2g}"
    places = 3 if size < 1 else 2 if size < 100 else 1 if size < 1000 else 0
    text = f"{value:{sign}.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def totals(card: Scorecard) -> list[tuple[str, ...]]:
    """Return a line per role and one for all: how many claims got each verdict, and in total."""
    roles: Sequence[str | None] = [role for role in ROLES if card.total(role)] + [None]
    return [
        (role or "all", *(str(card.total(role, one)) for one in VERDICTS), str(card.total(role)))
        for role in roles
    ]


def notes(card: Scorecard) -> Iterator[str]:
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

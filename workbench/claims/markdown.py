"""The scorecard as Markdown, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.claims import words
from workbench.claims.card import Scorecard
from workbench.claims.roles import ROLES
from workbench.claims.rule import VERDICTS

CLAIM_COLUMNS = ("claim", "source", "paper", "ours", "difference", "verdict", "reason")

_SHORT_CELL = 18


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
                    row.metric if row.check == "order" else words.paper(row),
                    words.ours(row),
                    words.difference(row),
                    row.verdict,
                    row.reason,
                )
                for row in rows
            ]
            shown = _markdown_table(CLAIM_COLUMNS, body, right=(3, 4))
            parts.append(f"**{role}**: {meaning}\n\n{shown}")
    header = ("totals", *VERDICTS, "all")
    parts.append(_markdown_table(header, words.totals(card), right=range(1, len(header))))
    parts.append("\n".join(f"- {note}" for note in words.notes(card)))
    return "\n\n".join(parts) + "\n"


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

"""The scorecard as text: a table for the terminal, JSON for programs, Markdown for notebooks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping

from workbench.claims.card import Scorecard
from workbench.claims.markdown import markdown
from workbench.names import check_name


def render(card: Scorecard, format: str = "table") -> str:
    """Return a scorecard as text.

    Parameters
    ----------
    card
        What to show.
    format
        ``"table"`` (coloured where standard output is a terminal), ``"json"`` (a list of objects,
        the fields of `Row`) or ``"markdown"``.

    Raises
    ------
    UnknownNameError
        There is no such format.
    """
    return FORMATS[check_name("format", format, FORMATS)](card)


def to_json(card: Scorecard) -> str:
    """Return a JSON list with one object per claim; its keys are the fields of `Row`."""
    rows = [dataclasses.asdict(row) for row in card.rows]
    return json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _table(card: Scorecard) -> str:
    from workbench.claims.terminal import table  # rich is loaded for a terminal only

    return table(card)


FORMATS: Mapping[str, Callable[[Scorecard], str]] = {
    "table": _table,
    "json": to_json,
    "markdown": markdown,
}

"""The scorecard: claims judged, their totals and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.claims.row import Row
from workbench.claims.rule import VERDICTS

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, repr=False)
class Scorecard:
    """All claims of some systems, judged.

    Attributes
    ----------
    rows
        In the order of the table of claims.
    scales
        System -> the scale its stored results were made at.
    missing
        System -> the command that makes its results, where none are stored.
    not_built
        System -> how many claims it has; those that the workbench does not have yet and that were
        not asked for by name.
    unanswered
        Claims that have results but no answer: gaps in the system's ``answers.py``.
    """

    rows: tuple[Row, ...]
    scales: Mapping[str, str]
    missing: Mapping[str, str]
    not_built: Mapping[str, int]
    unanswered: tuple[str, ...]

    def total(self, role: str | None = None, verdict: str | None = None) -> int:
        """Return how many rows have this role and verdict; None counts all."""
        return sum(role in (None, row.role) and verdict in (None, row.verdict) for row in self.rows)

    def percent_errors(self, role: str) -> list[float]:
        """Return |ours - paper| in points of each percent claim of this role that has a number."""
        return [
            abs(row.difference)
            for row in self.rows
            if (row.role, row.unit, row.check) == (role, "percent", "near")
            and row.difference is not None
        ]

    @property
    def frame(self) -> pl.DataFrame:
        """The rows as a frame; `paper` and `ours` are null where they are no numbers."""
        import polars as pl

        def number(value: float | bool | str | None) -> float | None:
            return None if isinstance(value, bool | str) or value is None else float(value)

        schema: dict[str, type[pl.DataType]] = dict.fromkeys(Row.__annotations__, pl.String)
        schema |= dict.fromkeys(("paper", "ours", "difference"), pl.Float64)
        records = [
            vars(row) | {"paper": number(row.paper), "ours": number(row.ours)} for row in self.rows
        ]
        return pl.DataFrame(records, schema=schema)

    def __repr__(self) -> str:
        counts = [f"{self.total(verdict=one)} {one}" for one in VERDICTS if self.total(verdict=one)]
        return f"Scorecard of {len(self.rows)} claims: {', '.join(counts)}"

    def _repr_markdown_(self) -> str:
        from workbench.claims.markdown import markdown

        return markdown(self)

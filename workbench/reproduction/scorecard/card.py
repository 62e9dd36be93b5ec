"""A claim, judged, and the scorecard of all of them."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.reproduction.claims import VERDICTS, Answer, Cause, Claim
from workbench.utils.numbers import three_digits

if TYPE_CHECKING:
    import polars as pl

ROLES = {
    "fit": "used to calibrate constants",
    "predicted": "neither given nor calibrated on",
    "input": "given to the model",
}
"""What a claim is to the workbench."""

UNITS = {"percent": "%", "percentage points": "pp", "exponent": "", "count": ""}


@dataclass(frozen=True)
class Row:
    """A claim, judged.

    Attributes
    ----------
    reason
        Why it is missed or did not run, or briefly where ours comes from.
    answer
        What is judged; without a value if nothing decides the claim.
    evidence
        What it is judged by, such as ``recorded at paper, 3 seeds, mnist``; empty if nothing.
    weaker, weaker_evidence
        The value that weaker evidence gives, which is not judged; None and empty if none does.
    cause
        Of a miss.
    """

    claim: Claim
    role: str
    verdict: str
    reason: str
    answer: Answer
    evidence: str = ""
    weaker: float | bool | None = None
    weaker_evidence: str = ""
    cause: Cause | None = None

    @property
    def name(self) -> str:
        """The claim's id without its system."""
        return self.claim.id.removeprefix(f"{self.claim.system}.")

    @property
    def unit(self) -> str:
        """The unit as it is written behind a number."""
        return UNITS.get(self.claim.unit, self.claim.unit)

    @property
    def paper_text(self) -> str:
        """The paper's value as it states it, with bound and unit; ``true`` for an order."""
        if self.claim.check == "order":
            return "true"
        bound = {"at_most": "<= ", "at_least": ">= "}.get(self.claim.check, "")
        return f"{bound}{self.claim.value} {self.unit}".rstrip()

    @property
    def ours_text(self) -> str:
        """Our value with three significant digits, or a dash."""
        return text_of(self.answer.ours)

    def with_unit(self, value: float | bool | None) -> str:
        """Write a value of ours with the claim's unit, if it is a number."""
        is_number = value is not None and not isinstance(value, bool)
        return f"{text_of(value)} {self.unit}".rstrip() if is_number else text_of(value)

    @property
    def difference(self) -> float | None:
        """Ours less the paper's number, in the claim's unit."""
        if self.answer.ours is None or isinstance(self.claim.paper, str):
            return None
        return self.answer.ours - self.claim.paper

    def record(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        stated = ("id", "system", "source", "setting", "metric", "unit", "check")
        return {
            **{name: getattr(self.claim, name) for name in stated},
            "role": self.role,
            "paper": self.claim.paper,
            "ours": self.answer.ours,
            "difference": self.difference,
            "verdict": self.verdict,
            "reason": self.reason,
            "timed": self.answer.timed,
            "evidence": self.evidence,
            "weaker": self.weaker,
            "weaker_evidence": self.weaker_evidence,
            "cause": self.cause.kind if self.cause else "",
            "cause_reason": self.cause.why if self.cause else "",
            "caveat": self.answer.caveat,
        }


def text_of(value: float | bool | None) -> str:
    """Write a value of ours: three significant digits, a truth value, or a dash for none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return three_digits(value)


@dataclass(frozen=True, repr=False)
class Scorecard:
    """Claims of systems, judged, in the order of the table of claims.

    `notes` say which recordings judge nothing, and why.
    """

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def totals(self) -> dict[str, dict[str, int]]:
        """Return how many claims have a verdict or a cause: by role, by system, of all."""
        totals = {}
        for name in (*ROLES, *dict.fromkeys(row.claim.system for row in self.rows), "all"):
            rows = [row for row in self.rows if name in (row.role, row.claim.system, "all")]
            counts = Counter(row.verdict for row in rows)
            counts += Counter(row.cause.kind for row in rows if row.cause)
            if rows:
                totals[name] = {**counts, "all": len(rows)}
        return totals

    @property
    def frame(self) -> pl.DataFrame:
        """A row per claim; `paper`, `ours` and `weaker` are null unless they are numbers.

        For an order, `holds` replaces `ours`.
        """
        import polars as pl

        def number(value: float | bool | str | None) -> float | None:
            return None if isinstance(value, bool | str) or value is None else float(value)

        numbers = ("paper", "ours", "weaker")
        records = [
            {
                **record,
                **{name: number(record[name]) for name in numbers},
                "holds": record["ours"] if record["check"] == "order" else None,
            }
            for record in (row.record() for row in self.rows)
        ]
        types = dict.fromkeys((*numbers, "difference"), pl.Float64)
        return pl.DataFrame(records, schema_overrides={**types, "holds": pl.Boolean})

    def remarks(self) -> list[str]:
        """Return how far off the numbers in percent are, by role, and the notes."""
        errors = defaultdict[str, list[float]](list)
        for row in self.rows:
            is_percent = row.claim.unit == "percent" and row.claim.check == "near"
            if is_percent and row.difference is not None:
                errors[row.role].append(abs(row.difference))
        means = [
            f"{role} {statistics.fmean(errors[role]):.3g} points (n = {len(errors[role])})"
            for role in ROLES
            if errors[role]
        ]
        mean = [f"Mean absolute error of claims in percent: {', '.join(means)}."] if means else []
        return [*mean, *(f"{note}." for note in self.notes)]

    def to_json(self) -> str:
        """Return a JSON list with an object for each claim."""
        return json.dumps([row.record() for row in self.rows], indent=2, allow_nan=False) + "\n"

    def __repr__(self) -> str:
        verdicts = Counter(row.verdict for row in self.rows)
        counts = [f"{verdicts[name]} {name}" for name in VERDICTS if verdicts[name]]
        return f"Scorecard of {len(self.rows)} claims: {', '.join(counts)}"

    def to_markdown(self) -> str:
        """Return a table per role with a line per claim, then the remarks."""
        parts = []
        for role, meaning in ROLES.items():
            rows = [_cells(row) for row in self.rows if row.role == role]
            if rows:
                columns = [name for name in rows[0] if any(row[name] for row in rows)]
                lines = [columns, ["---"] * len(columns)]
                lines += [[row[name] for name in columns] for row in rows]
                table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
                parts.append(f"**{role}**: {meaning}\n\n{table}")
        return "\n\n".join([*parts, *self.remarks()]) + "\n"

    _repr_markdown_ = to_markdown


@dataclass(frozen=True, repr=False)
class Verdicts:
    """Verdicts on the claims about a few figures, as a short table."""

    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        return "\n".join(
            f"{row.name}: {row.paper_text}, ours {row.ours_text}: {row.verdict}"
            for row in self.rows
        )

    def _repr_markdown_(self) -> str:
        columns = ("the paper states", "paper", "ours", "verdict", "evidence")
        lines = [columns, ["---"] * len(columns)]
        for row in self.rows:
            says = ", ".join(filter(None, (row.claim.metric, row.claim.setting)))
            fit = ", fit" if row.role == "fit" else ""
            cells = (row.paper_text, row.ours_text, f"{row.verdict}{fit}")
            wide = [cell.replace(" ", "\u00a0") for cell in cells]
            lines.append([says.replace("|", "\\|"), *wide, row.evidence])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cells(row: Row) -> dict[str, str]:
    says = [row.claim.metric] if row.claim.check == "order" else []
    says += [row.reason, row.cause.why if row.cause else "", row.answer.caveat]
    weaker = f"{text_of(row.weaker)} ({row.weaker_evidence})" if row.weaker_evidence else ""
    cells = {
        "claim": f"`{row.claim.id}`",
        "source": row.claim.source,
        "paper": row.paper_text,
        "ours": row.ours_text,
        "verdict": row.verdict,
        "cause": row.cause.kind if row.cause else "",
        "evidence": row.evidence,
        "weaker evidence": weaker,
        "what it says, and why": "; ".join(text for text in says if text).replace("|", "\\|"),
    }
    for name in ("source", "paper", "verdict"):
        cells[name] = cells[name].replace(" ", "\u00a0")  # a number and its unit do not wrap
    return cells

"""The scorecard: claims judged, their totals and errors; as a frame, as Markdown, as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.claims import CAUSES, VERDICTS

if TYPE_CHECKING:
    import polars as pl

ROLES = {
    "fit": "used to calibrate constants",
    "predicted": "neither given nor calibrated on",
    "input": "given to the model",
}
"""What a claim is to the workbench."""

CLAIM_COLUMNS = (
    *("claim", "source", "paper", "ours", "verdict", "cause", "evidence", "beside"),
    "what it says, and why",
)
_SYMBOLS = {"percent": "%", "percentage points": "pp", "exponent": "", "count": ""}
_NAMED = 5  # of a list of claims, before the rest is counted
_SHORT_CELL = 18
MOST_PLACES = 6
"""Of decimals by which two numbers are told apart."""


@dataclass(frozen=True)
class Row:
    """One claim, judged.

    Attributes
    ----------
    difference
        Ours less the paper's, in the claim's unit.
    reason
        Why it misses, or briefly where ours comes from.
    caveat
        What is to be known of it also where it is met.
    timed
        Whether it is a time measured by this machine's run.
    evidence
        What it is judged by, such as ``recorded at paper, 3 seeds, mnist``; empty if it did not
        run.
    beside, beside_evidence
        What weaker evidence gives, which is not judged; None and empty where there is none.
    compared
        Numbers that the verdict rests on: bounds, no difference, and ours for siblings.
    cause, cause_reason
        Of a miss, by name as in `workbench.claims.CAUSES`, and what shows it; else empty.
    """

    id: str
    system: str
    source: str
    setting: str
    metric: str
    unit: str
    check: str
    role: str
    paper: float | str
    ours: float | bool | None
    difference: float | None
    verdict: str
    reason: str
    timed: bool = False
    evidence: str = ""
    beside: float | bool | None = None
    beside_evidence: str = ""
    cause: str = ""
    cause_reason: str = ""
    caveat: str = ""
    compared: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The claim's id without its system."""
        return self.id.removeprefix(f"{self.system}.")

    @property
    def paper_text(self) -> str:
        """The paper's value with its bound and unit; ``true`` for an order."""
        if self.check == "order":
            return "true"
        sign = {"at_most": "<= ", "at_least": ">= "}.get(self.check, "")
        return f"{sign}{text_of(self.paper)} {self.symbol}".rstrip()

    @property
    def symbol(self) -> str:
        """The unit as it is written behind a number."""
        return _SYMBOLS.get(self.unit, self.unit)

    @property
    def ours_text(self) -> str:
        """Our value with the digits that its verdict follows from, or a dash."""
        return text_of(self.ours, self.compared)

    @property
    def beside_text(self) -> str:
        """The value beside, or nothing."""
        return text_of(self.beside) if self.beside_evidence else ""


_FIELDS = tuple(field.name for field in dataclasses.fields(Row) if field.name != "compared")


def text_of(value: float | bool | str | None, compared: Iterable[float] = ()) -> str:
    """Write a value with its significant decimals: 0.084, 42.86, 153.4, 1097.

    With more of them where the text would be that of another number that it is `compared` with.
    """
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return str(value).lower() if isinstance(value, bool) else value
    size = abs(value)
    places = 3 if size < 1 else 2 if size < 100 else 1 if size < 1000 else 0
    for other in compared:
        while round(value, places) == round(other, places) and places < MOST_PLACES:
            if math.isclose(value, other, rel_tol=1e-9):
                break
            places += 1
    if 0 < size < 1e-3 and places == 3:
        return f"{value:.2g}"
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


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
    unanswered
        Claims that the stored results of their system do not answer.
    recorded
        Provenance of the recorded results, by system and experiment.
    """

    rows: tuple[Row, ...]
    scales: Mapping[str, str]
    missing: Mapping[str, str]
    unanswered: tuple[str, ...]
    recorded: Mapping[str, str] = field(default_factory=dict)

    def counts(self, **where: str) -> dict[str, int]:
        """Return how many rows with these fields have each verdict, all there are, each cause."""
        rows = [row for row in self.rows if where.items() <= vars(row).items()]
        verdicts, causes = Counter(row.verdict for row in rows), Counter(row.cause for row in rows)
        return {
            **{verdict: verdicts[verdict] for verdict in VERDICTS},
            "all": len(rows),
            **{cause: causes[cause] for cause in CAUSES},
        }

    def percent_errors(self, role: str) -> list[float]:
        """Return ours less the paper's, without sign, of each percent claim of a role (points)."""
        return [
            abs(row.difference)
            for row in self.rows
            if (row.role, row.unit, row.check) == (role, "percent", "near")
            and row.difference is not None
        ]

    @property
    def frame(self) -> pl.DataFrame:
        """A row per claim; `paper`, `ours` and `beside` are null unless they are numbers.

        For an order, `holds` replaces `ours`.
        """
        import polars as pl

        def number(value: float | bool | str | None) -> float | None:
            return None if isinstance(value, bool | str) or value is None else float(value)

        numbers = ("paper", "ours", "beside")
        schema: dict[str, type[pl.DataType]] = dict.fromkeys(_FIELDS, pl.String)
        schema |= dict.fromkeys((*numbers, "difference"), pl.Float64) | {"timed": pl.Boolean}
        records = [
            {name: value for name, value in vars(row).items() if name in schema}
            | {name: number(getattr(row, name)) for name in numbers}
            | {"holds": row.ours if isinstance(row.ours, bool) else None}
            for row in self.rows
        ]
        return pl.DataFrame(records, schema=schema | {"holds": pl.Boolean})

    def totals(self) -> list[tuple[str, dict[str, int]]]:
        """Return `counts` with a name: of each role, each system if there are several, and all."""
        systems = dict.fromkeys(row.system for row in self.rows)
        counts = {role: self.counts(role=role) for role in ROLES}
        if len(systems) > 1:
            counts |= {system: self.counts(system=system) for system in systems}
        there = [(name, count) for name, count in counts.items() if count["all"]]
        return [*there, ("all", self.counts())]

    def notes(self) -> Iterator[str]:
        """Yield how far off the percent claims are, at which scale, and what is missing."""
        means = [
            f"{role} {statistics.fmean(errors):.2f} points (n = {len(errors)})"
            for role in ROLES
            if (errors := self.percent_errors(role))
        ]
        if means:
            yield f"Mean absolute error of the percent claims: {', '.join(means)}."
        for system, scale in self.scales.items():
            yield f"{system}: results made at {scale} scale."
        alike = defaultdict[tuple[str, str], list[str]](list)
        for name, made in self.recorded.items():
            system, _, experiment = name.partition(" ")
            alike[system, made].append(experiment)
        for (system, made), experiments in alike.items():
            yield f"{system} {', '.join(experiments)}: {made}."
        for system, command in self.missing.items():
            yield f"{system}: no stored results. To make them: {command}"
        if self.unanswered:
            named = ", ".join(self.unanswered[:_NAMED])
            more = len(self.unanswered) - _NAMED
            others = f" and {more} more" if more > 0 else ""
            yield f"The stored results do not answer {named}{others}; the line of each says why."

    def to_json(self) -> str:
        """Return a JSON list with one object per claim; its keys are the fields of `Row`."""
        rows = [{name: getattr(row, name) for name in _FIELDS} for row in self.rows]
        return json.dumps(rows, indent=2, allow_nan=False) + "\n"

    def to_markdown(self) -> str:
        """Return a table per role, a line per claim; then the totals and what is missing."""
        parts = []
        for role, meaning in ROLES.items():
            described = [_cells(row) for row in self.rows if row.role == role]
            if described:
                shown = [name for name in CLAIM_COLUMNS if any(cells[name] for cells in described)]
                lines = [[cells[name] for name in shown] for cells in described]
                table = _markdown_table(shown, lines, right=[shown.index("ours")])
                parts.append(f"**{role}**: {meaning}\n\n{table}")
        header = ("totals", *self.counts())
        totals = [(name, *map(str, counts.values())) for name, counts in self.totals()]
        parts.append(_markdown_table(header, totals, right=range(1, len(header))))
        parts.append("\n".join(f"- {note}" for note in self.notes()))
        return "\n\n".join(parts) + "\n"

    def __repr__(self) -> str:
        counts = self.counts()
        verdicts = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]]
        return f"Scorecard of {len(self.rows)} claims: {', '.join(verdicts)}"

    _repr_markdown_ = to_markdown


def _cells(row: Row) -> dict[str, str]:
    beside = f"{row.beside_text} ({row.beside_evidence})" if row.beside_evidence else ""
    says = [row.metric] if row.check == "order" else []
    says += [row.reason] if row.reason else []
    says += [text for text in (row.cause_reason, row.caveat) if text]
    cells = (
        *(f"`{row.id}`", row.source, row.paper_text, row.ours_text, row.verdict, row.cause),
        *(row.evidence, beside, "; ".join(says)),
    )
    return dict(zip(CLAIM_COLUMNS, cells, strict=True))


def _markdown_table(
    header: Sequence[str], body: Iterable[Sequence[str]], right: Iterable[int]
) -> str:
    aligned = set(right)
    rule = ["--:" if column in aligned else "---" for column in range(len(header))]
    cells = [[_unbroken(cell.replace("|", "\\|")) for cell in row] for row in body]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(header), rule, *cells])


def _unbroken(cell: str) -> str:
    """Keep a short cell, such as a number and its unit, on one line."""
    return cell.replace(" ", "\N{NO-BREAK SPACE}") if len(cell) <= _SHORT_CELL else cell

"""What the papers report against what the workbench gets: claims, the rule, the scorecard.

Claims are rows of ``data/claims.csv``. Each system answers its own in
``workbench/SYSTEM/answers.py``, by one function from the frames that its notebook stored to an
`Answer` for each claim::

    def answers(frames: Mapping[str, pl.DataFrame]) -> dict[str, Answer]: ...

It answers what the given frames allow and leaves out what needs a frame that is not there.
`verdict` holds the rule, the same for every claim; `scorecard` puts claims, answers and verdicts
together.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import results as stored_results
from workbench.names import check_name
from workbench.paths import DATA

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("id", "system", "source", "setting", "metric", "unit", "value", "check", "note")
CHECKS = ("near", "at_most", "at_least", "range", "order", "input")
ROLES = {
    "fit": "used to calibrate constants",
    "predicted": "neither given nor calibrated on",
    "input": "given to the model",
}
VERDICTS = ("near", "holds", "trend", "not reproduced", "not run", "input")

# What `near` allows: this much in the claim's unit, or this share of the paper's value if more.
TOLERANCES: Mapping[str, tuple[float, float]] = {
    "percent": (3.0, 0.10),
    "percentage points": (3.0, 0.10),
    "x": (0.0, 0.15),
    "samples": (0.0, 0.25),
}
OTHER_TOLERANCE = (0.0, 0.10)

# The value at which a claim of this unit says "no difference".
REFERENCES: Mapping[str, float] = {"percent": 0.0, "percentage points": 0.0, "x": 1.0}

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


@dataclass(frozen=True)
class Claim:
    """One number or ordering that a paper states.

    Attributes
    ----------
    id
        Dotted, the system first; claims that differ in the last part only are siblings.
    value
        As the table has it: a number, ``LOW-HIGH`` for a range, a statement for an order.
    check
        One of `CHECKS`: how ours is held against it.
    """

    id: str
    system: str
    source: str
    setting: str
    metric: str
    unit: str
    value: str
    check: str
    note: str = ""

    def __post_init__(self) -> None:
        if not self.id.startswith(f"{self.system}."):
            raise ValueError(f"the id {self.id!r} does not begin with its system, {self.system!r}")
        check_name("check", self.check, CHECKS)
        if self.check == "range":
            low, high = self.bounds
            if low > high:
                raise ValueError(f"{self.id}: the range {self.value} runs from high to low")
        elif self.check != "order" and re.fullmatch(_NUMBER, self.value) is None:
            raise ValueError(
                f"{self.id}: the check {self.check!r} needs a number, not {self.value!r}"
            )

    @property
    def paper(self) -> float | str:
        """The paper's value: a number, or the words of a range or an order."""
        return self.value if self.check in ("range", "order") else float(self.value)

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest value of a range.

        Raises
        ------
        ValueError
            The value is not of the form ``LOW-HIGH``.
        """
        found = re.fullmatch(f"({_NUMBER})-({_NUMBER})", self.value)
        if found is None:
            raise ValueError(f"{self.id}: a range is LOW-HIGH, not {self.value!r}")
        return float(found[1]), float(found[2])


@dataclass(frozen=True)
class Answer:
    """What the workbench gets for one claim.

    Parameters
    ----------
    ours
        In the claim's unit; whether it holds, for an order; None if there is no value.
    detail
        What `ours` was computed from, or why there is none.
    not_run
        Set if the claim cannot be answered yet: what it waits for.
    """

    ours: float | bool | None = None
    detail: str = ""
    not_run: str = ""

    def __post_init__(self) -> None:
        plain = getattr(self.ours, "item", None)  # of NumPy's numbers, whose bool is not Python's
        if plain is not None:
            object.__setattr__(self, "ours", plain())
        if self.ours is None:
            if not (self.detail or self.not_run):
                raise ValueError("an answer without a value says why, in detail or not_run")
        elif self.not_run:
            raise ValueError(f"an answer has a value, {self.ours}, or did not run; not both")
        elif not math.isfinite(self.ours):
            raise ValueError(f"ours is {self.ours}; where there is no value give None and a detail")


@dataclass(frozen=True)
class Row:
    """One claim, judged. `difference` is ours less the paper's, in the claim's unit."""

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
        return render(self, "markdown")


def load_claims(path: Path | None = None) -> pl.DataFrame:
    """Return the table of claims, every row checked.

    Parameters
    ----------
    path
        A CSV file with the columns `COLUMNS`; by default ``data/claims.csv``.

    Returns
    -------
    pl.DataFrame
        All columns as text, nulls as empty text, in the file's order.

    Raises
    ------
    ValueError
        A column is missing, or a row is wrong: named by its line with what is allowed.
    """
    import polars as pl

    path = path or DATA / "claims.csv"
    frame = pl.read_csv(path, infer_schema=False).fill_null("")
    absent = [name for name in COLUMNS if name not in frame.columns]
    if absent:
        raise ValueError(f"{path.name} lacks the columns {', '.join(absent)}")
    seen: dict[str, int] = {}
    for line, record in enumerate(frame.select(COLUMNS).iter_rows(named=True), start=2):
        try:
            claim = Claim(**record)
        except ValueError as error:
            raise ValueError(f"{path.name}, line {line}: {error}") from None
        if claim.id in seen:
            raise ValueError(
                f"{path.name}, line {line}: {claim.id!r} stands in line {seen[claim.id]} already"
            )
        seen[claim.id] = line
    return frame.select(COLUMNS)


def tolerance(unit: str, paper: float) -> float:
    """Return how far from the paper's value is still near, in the claim's unit; see `verdict`."""
    absolute, relative = TOLERANCES.get(unit, OTHER_TOLERANCE)
    return max(absolute, relative * abs(paper))


def siblings(claim: Claim, others: Iterable[Claim]) -> list[Claim]:
    """Return those of `others` that the paper gives beside `claim`, as numbers to compare with."""
    family = claim.id.rpartition(".")[0]
    return [
        other
        for other in others
        if other.id != claim.id
        and other.id.rpartition(".")[0] == family
        and (other.unit, other.check) == (claim.unit, claim.check)
    ]


def verdict(
    claim: Claim, ours: float | bool, beside: Sequence[tuple[Claim, float]] = ()
) -> tuple[str, str]:
    """Judge one claim by the rule that holds for all of them.

    ========  ====================================================================================
    check     rule
    ========  ====================================================================================
    near      `near` within the larger of 3 points and 10 % of the paper's value (percent,
              percentage points), 15 % (x), 25 % (samples), 10 % (all else). A number that misses
              is `trend` if its ordering holds: it lies on the paper's side of no difference (0 for
              percent, 1 for x), and above or below each sibling as in the paper, siblings whose
              paper's values are near each other left aside. With nothing to be ordered by, or
              the wrong way round, it is `not reproduced`.
    at_most   `holds` if ours is no more than the paper's value, else `not reproduced`
    at_least  `holds` if ours is no less, else `not reproduced`
    range     `holds` from the low to the high end, both included, else `not reproduced`
    order     `holds` if the statement is true of ours, else `not reproduced`
    input     `input` always: a value given to the model is not a result of it
    ========  ====================================================================================

    Parameters
    ----------
    claim
        What the paper states.
    ours
        In the claim's unit; whether it holds, for an order.
    beside
        The siblings that have a number, with ours.

    Returns
    -------
    tuple[str, str]
        One of `VERDICTS`, and the reason where ours misses.

    Raises
    ------
    TypeError
        `ours` is a number for an order, or a truth value for a number.
    """
    if isinstance(ours, bool) != (claim.check == "order"):
        wanted = "true or false" if claim.check == "order" else "a number"
        raise TypeError(f"{claim.id}: ours is {ours!r}, but the check {claim.check!r} is {wanted}")
    match claim.check:
        case "input":
            return "input", ""
        case "order":
            return ("holds", "") if ours else ("not reproduced", "the stated order does not hold")
        case "near":
            return _near(claim, ours, beside)
        case "range":
            low, high = claim.bounds
        case "at_most":
            low, high = -math.inf, float(claim.value)
        case "at_least":
            low, high = float(claim.value), math.inf
    if low <= ours <= high:
        return "holds", ""
    side, bound = ("above", high) if ours > high else ("below", low)
    return "not reproduced", f"{abs(ours - bound):.3g} {_unit(claim)}{side} {bound:g}"


def _near(claim: Claim, ours: float, beside: Sequence[tuple[Claim, float]]) -> tuple[str, str]:
    paper = float(claim.value)
    allowed = tolerance(claim.unit, paper)
    if _within(ours - paper, allowed):
        return "near", ""
    side = "above" if ours > paper else "below"
    miss = f"{abs(ours - paper):.3g} {_unit(claim)}{side} the paper's, near is {allowed:.3g}"

    compared = []  # (whom with, paper's side, our side)
    if claim.unit in REFERENCES:
        reference = REFERENCES[claim.unit]
        compared.append((f"{reference:g}", _sign(paper - reference), _sign(ours - reference)))
    for other, other_ours in beside:
        other_paper = float(other.value)
        tie = max(allowed, tolerance(other.unit, other_paper))
        if not _within(paper - other_paper, tie):
            name = other.id.rpartition(".")[2]
            compared.append((name, _sign(paper - other_paper), _sign(ours - other_ours)))

    words = {1: "above", 0: "equal to", -1: "below"}
    wrong = [f"{words[stated]} {name}" for name, stated, found in compared if stated != found]
    if wrong:
        return "not reproduced", f"{miss}; the paper has it {', '.join(wrong)}"
    if not compared:
        return "not reproduced", f"{miss}; no ordering to fall back on"
    kept = ", ".join(f"{words[stated]} {name}" for name, stated, _ in compared)
    return "trend", f"{miss}; as in the paper {kept}"


def _within(gap: float, allowed: float) -> bool:
    # The slack is for rounding alone: 42.86 - 38.574 is 4.286000000000001.
    return abs(gap) <= allowed * (1 + 1e-9) + 1e-12


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _unit(claim: Claim) -> str:
    unit = {"percent": "points", "percentage points": "points"}.get(claim.unit, claim.unit)
    return f"{unit} "


def fitted_on(system: str, claims: Iterable[str], folder: Path | None = None) -> frozenset[str]:
    """Return the claims that a system's constants were calibrated on.

    Parameters
    ----------
    system
        Whose ``data/calibration/SYSTEM.toml`` to read; none means nothing was calibrated.
    claims
        The ids that exist.

    Raises
    ------
    UnknownNameError
        The file lists an id that no claim bears.
    """
    path = (folder or DATA / "calibration") / f"{system}.toml"
    if not path.is_file():
        return frozenset()
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get("fitted_on", [])
    known = list(claims)
    return frozenset(check_name(f"claim in {path.name}", one, known) for one in listed)


def built(system: str) -> bool:
    """Tell whether the workbench has this system, that is, answers to its claims."""
    try:
        return importlib.util.find_spec(f"workbench.{system}.answers") is not None
    except ModuleNotFoundError:
        return False


def scorecard(
    results: Path | None = None, system: str | None = None, claims: pl.DataFrame | None = None
) -> Scorecard:
    """Judge claims by the stored results, without running anything.

    Parameters
    ----------
    results
        What `workbench reproduce` wrote; ``data/results`` by default.
    system
        Whose claims; by default those of every system that is built.
    claims
        As `load_claims` returns; by default the workbench's own table.

    Raises
    ------
    UnknownNameError
        No claim is of this system, or an answer is to no claim.
    """
    folder = results or stored_results.default_folder()
    table = load_claims() if claims is None else claims
    systems = list(dict.fromkeys(table["system"]))
    if system is None:
        chosen = [one for one in systems if built(one)]
    else:
        chosen = [check_name("system", system, systems)]

    cards = []
    for one in chosen:
        manifest = stored_results.manifest(folder, one)
        scale = manifest.scale if manifest else None
        cards.append(of_frames(one, stored_results.load(folder, one), scale=scale, claims=table))
    return Scorecard(
        rows=tuple(row for card in cards for row in card.rows),
        scales={one: scale for card in cards for one, scale in card.scales.items()},
        missing={one: command for card in cards for one, command in card.missing.items()},
        not_built={
            one: table["system"].to_list().count(one)
            for one in systems
            if one not in chosen and not built(one)
        },
        unanswered=tuple(name for card in cards for name in card.unanswered),
    )


def of_frames(
    system: str,
    frames: Mapping[str, pl.DataFrame],
    *,
    scale: str | None = None,
    claims: pl.DataFrame | None = None,
) -> Scorecard:
    """Judge one system's claims by frames at hand, as a notebook has them while it runs.

    Parameters
    ----------
    system
        Whose claims.
    frames
        By name, as the notebook keeps them; empty where nothing is stored.
    scale
        At which they were made.
    claims
        As `load_claims` returns; by default the workbench's own table.

    Raises
    ------
    UnknownNameError
        No claim is of this system, or an answer is to no claim.
    """
    table = load_claims() if claims is None else claims
    check_name("system", system, dict.fromkeys(table["system"]))
    own = [Claim(**one) for one in table.iter_rows(named=True) if one["system"] == system]
    ids = [claim.id for claim in own]
    here = built(system)
    command = f"workbench reproduce {_notebook(system)}"
    found: Mapping[str, Answer] = {}
    excuse = "this system is not built yet"
    if here:
        answers = importlib.import_module(f"workbench.{system}.answers").answers
        found, excuse = _answers(answers, frames, command)
    for name in found:
        check_name("claim", name, ids)
    fit = fitted_on(system, ids)
    return Scorecard(
        rows=tuple(_row(claim, own, found, excuse, claim.id in fit) for claim in own),
        scales={system: scale or "an unknown"} if frames else {},
        missing={system: command} if here and not frames else {},
        not_built={},
        unanswered=tuple(
            claim.id for claim in own if frames and claim.id not in found and claim.check != "input"
        ),
    )


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
    from workbench import scorecard_text

    shown: Callable[[Scorecard], str] = scorecard_text.FORMATS[
        check_name("format", format, scorecard_text.FORMATS)
    ]
    return shown(card)


def _answers(
    answers: Callable[[Mapping[str, pl.DataFrame]], dict[str, Answer]],
    frames: Mapping[str, pl.DataFrame],
    command: str,
) -> tuple[dict[str, Answer], str]:
    """Return the answers, and what to say of claims that have none."""
    import polars as pl

    excuse = f"no stored results: run `{command}`"
    if frames:
        excuse = f"the stored results have no answer to it: run `{command} --force`"
    try:
        return answers(frames), excuse
    except (KeyError, pl.exceptions.PolarsError) as error:
        if frames:
            lost = str(error).partition("\n")[0]
            excuse = f"the stored results are of another version ({lost}): run `{command} --force`"
        return {}, excuse


def _row(
    claim: Claim, own: Sequence[Claim], found: Mapping[str, Answer], excuse: str, fit: bool
) -> Row:
    answer = found.get(claim.id) or Answer(not_run=excuse)
    judged, reason = _judge(claim, own, found, answer)
    difference = None
    if isinstance(claim.paper, float) and answer.ours is not None:
        difference = float(answer.ours) - claim.paper
    return Row(
        id=claim.id,
        system=claim.system,
        source=claim.source,
        setting=claim.setting,
        metric=claim.metric,
        unit=claim.unit,
        check=claim.check,
        role="input" if claim.check == "input" else "fit" if fit else "predicted",
        paper=claim.paper,
        ours=answer.ours,
        difference=difference,
        verdict=judged,
        reason=reason,
    )


def _judge(
    claim: Claim, own: Sequence[Claim], found: Mapping[str, Answer], answer: Answer
) -> tuple[str, str]:
    if claim.check == "input":
        return "input", answer.detail or claim.note
    if answer.not_run:
        return "not run", answer.not_run
    if answer.ours is None:
        return "not reproduced", answer.detail
    beside = [
        (other, float(found[other.id].ours or 0.0))
        for other in siblings(claim, own)
        if other.id in found and found[other.id].ours is not None
    ]
    judged, reason = verdict(claim, answer.ours, beside)
    return judged, "; ".join(part for part in (reason, answer.detail) if part)


def _notebook(system: str) -> str:
    """Return the name of the notebook that makes a system's results."""
    folder = stored_results.repository() / "notebooks"
    return next((path.stem for path in sorted(folder.glob(f"*_{system}.ipynb"))), system)

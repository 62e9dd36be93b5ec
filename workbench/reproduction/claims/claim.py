"""Claims of the papers, our answers to them, and causes of misses."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

from workbench.utils import files
from workbench.utils.checks import UserError, check_name, choose

if TYPE_CHECKING:
    import polars as pl

CHECKS = ("near", "at_most", "at_least", "range", "order", "input")
CAUSES: Mapping[str, str] = {
    "paper": "the paper's own numbers contradict each other",
    "data": "what it takes cannot be had",
    "noise": "the spread over seeds, or over what the paper finds alike, covers the bar",
    "ours": "of our own making, or not explained yet",
}
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


@dataclass(frozen=True)
class Claim:
    """A number or an ordering that a paper states: a row of ``data/claims.csv``.

    Attributes
    ----------
    id
        Dotted, the system first; claims that differ in the last part only are siblings.
    value
        As the table has it: a number, ``LOW-HIGH`` for a range, a statement for an order.
    check
        One of `CHECKS`: how our value is compared with it.
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
            raise UserError(f"the id {self.id!r} does not begin with its system, {self.system!r}")
        check_name("check", self.check, CHECKS)
        if self.check == "range":
            low, high = self.bounds
            if low > high:
                raise UserError(f"{self.id}: the range {self.value} runs from high to low")
        elif self.check != "order" and re.fullmatch(_NUMBER, self.value) is None:
            raise UserError(
                f"{self.id}: the check {self.check!r} needs a number, not {self.value!r}"
            )

    @property
    def paper(self) -> float | str:
        """The paper's value: a number, or the text of a range or an order."""
        return self.value if self.check in ("range", "order") else float(self.value)

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest value of a range."""
        ends = re.fullmatch(f"({_NUMBER})-({_NUMBER})", self.value)
        if ends is None:
            raise UserError(f"{self.id}: a range is LOW-HIGH, not {self.value!r}")
        return float(ends[1]), float(ends[2])


def load_claims() -> pl.DataFrame:
    """Return the table of claims; all columns are text, without nulls.

    Raises UserError: a row is wrong; the message names its line.
    """
    import polars as pl

    columns = [field.name for field in fields(Claim)]
    table = pl.read_csv(files.DATA / "claims.csv", infer_schema=False).fill_null("").select(columns)
    lines: dict[str, int] = {}
    for line, row in enumerate(table.iter_rows(named=True), start=2):
        try:
            claim = Claim(**row)
        except UserError as error:
            raise UserError(f"claims.csv, line {line}: {error}") from None
        if claim.id in lines:
            raise UserError(
                f"claims.csv, line {line}: {claim.id!r} stands in line {lines[claim.id]} already"
            )
        lines[claim.id] = line
    return table


def claims_of(system: str) -> dict[str, Claim]:
    """Return a system's claims by id."""
    table = load_claims()
    check_name("system", system, dict.fromkeys(table["system"]))
    rows = table.filter(system=system).iter_rows(named=True)
    return {row["id"]: Claim(**row) for row in rows}


def paper_value(claim: str) -> float:
    """Return the number that the paper states for a claim."""
    table = load_claims()
    return float(choose("claim", claim, dict(zip(table["id"], table["value"], strict=True))))


def paper_values(template: str) -> pl.DataFrame:
    """Return the numbers that the paper states for all claims whose ids fit a template.

    ``"dynacomm.fwd32.{model}.{planner}"`` gives the columns ``model, planner, paper``, a row a
    claim; no row where the paper states no such number.
    """
    import polars as pl

    names = re.findall(r"{(\w+)}", template)
    pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^.]+)", re.escape(template))
    numbers = load_claims().filter(~pl.col("check").is_in(["order", "range"]))
    columns = {
        name: pl.col("id").str.extract(f"^{pattern}$", names.index(name) + 1) for name in names
    }
    return numbers.filter(pl.col("id").str.contains(f"^{pattern}$")).select(
        **columns, paper=pl.col("value").cast(pl.Float64)
    )


@dataclass(frozen=True)
class Answer:
    """Our value for a claim.

    Attributes
    ----------
    ours
        In the claim's unit; whether it holds, for an order; None if there is no value.
    detail
        Briefly, where `ours` comes from, or why there is none.
    not_run
        If the claim cannot be answered yet: what it waits for.
    timed
        Whether it is a measured time, which differs from run to run.
    seeds
        Number of trainings, alike but for their seed, that `ours` is the mean of.
    spread
        Standard error of the mean over these seeds, in the claim's unit.
    caveat
        Reservation to state even where the claim is met.
    """

    ours: float | bool | None = None
    detail: str = ""
    not_run: str = ""
    timed: bool = False
    seeds: int | None = None
    spread: float | None = None
    caveat: str = ""

    def __post_init__(self) -> None:
        to_python = getattr(self.ours, "item", None)  # of a NumPy scalar
        if to_python:
            object.__setattr__(self, "ours", to_python())
        if self.ours is None:
            if not (self.detail or self.not_run):
                raise AssertionError("an answer without a value says why, in detail or not_run")
        elif self.not_run:
            raise AssertionError(f"an answer has a value, {self.ours}, or did not run; not both")
        elif not math.isfinite(self.ours):
            raise AssertionError(
                f"ours is {self.ours}; where there is no value give None and a detail"
            )

    @classmethod
    def over_seeds(cls, values: Sequence[float], detail: str = "", *, caveat: str = "") -> Answer:
        """Return the mean of a number that each seed has, and its standard error."""
        spread = stdev(values) / sqrt(len(values)) if len(values) > 1 else None
        return cls(fmean(values), detail, seeds=len(values), spread=spread, caveat=caveat)


@dataclass(frozen=True)
class Cause:
    """The cause of a miss: a name in `CAUSES`, and the arithmetic or the lack that shows it."""

    kind: Literal["paper", "data", "noise", "ours"]
    why: str

    def __post_init__(self) -> None:
        check_name("cause", self.kind, CAUSES)

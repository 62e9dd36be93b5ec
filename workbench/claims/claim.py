"""One claim: a number or an ordering that a paper states. All of them: ``data/claims.csv``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.utils import files
from workbench.utils.checks import UserError, check_name

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("id", "system", "source", "setting", "metric", "unit", "value", "check", "note")
CHECKS = ("near", "at_most", "at_least", "range", "order", "input")

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


def load_claims(path: Path | None = None) -> pl.DataFrame:
    """Return the table of claims, every row checked; all columns are text, nulls are empty.

    `path` is a CSV file with the columns `COLUMNS`; by default ``data/claims.csv``. A missing
    column or a wrong row is a ValueError that names the line and what is allowed.
    """
    import polars as pl

    path = path or files.DATA / "claims.csv"
    frame = pl.read_csv(path, infer_schema=False).fill_null("")
    absent = [name for name in COLUMNS if name not in frame.columns]
    if absent:
        raise UserError(f"{path.name} lacks the columns {', '.join(absent)}")
    seen: dict[str, int] = {}
    for line, record in enumerate(frame.select(COLUMNS).iter_rows(named=True), start=2):
        try:
            claim = Claim(**record)
        except ValueError as error:
            raise UserError(f"{path.name}, line {line}: {error}") from None
        if claim.id in seen:
            raise UserError(
                f"{path.name}, line {line}: {claim.id!r} stands in line {seen[claim.id]} already"
            )
        seen[claim.id] = line
    return frame.select(COLUMNS)


def claims_of(system: str, table: pl.DataFrame | None = None) -> dict[str, Claim]:
    """Return a system's claims by id; `table` is as `load_claims` returns it."""
    table = load_claims() if table is None else table
    check_name("system", system, dict.fromkeys(table["system"]))
    rows = table.filter(system=system).iter_rows(named=True)
    return {row["id"]: Claim(**row) for row in rows}


def paper_value(claim: str) -> float:
    """Return the number that the paper states for a claim."""
    table = load_claims()
    ids = table["id"].to_list()
    return float(table["value"][ids.index(check_name("claim", claim, ids))])


def siblings(claim: Claim, others: Iterable[Claim]) -> list[Claim]:
    """Return those of `others` that the paper states beside `claim`, as numbers to compare with."""
    family = claim.id.rpartition(".")[0]
    return [
        other
        for other in others
        if other.id != claim.id
        and other.id.rpartition(".")[0] == family
        and (other.unit, other.check) == (claim.unit, claim.check)
    ]

"""The table of claims, checked row by row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workbench import paths
from workbench.claims.claim import COLUMNS, Claim

if TYPE_CHECKING:
    import polars as pl


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

    path = path or paths.DATA / "claims.csv"
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

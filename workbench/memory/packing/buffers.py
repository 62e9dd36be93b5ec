"""What is to be packed: the sizes and lifetimes of buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.utils.checks import UserError

Ints = NDArray[np.int64]
Table = pl.DataFrame | Mapping[str, Any] | Sequence[Any]

COLUMNS = ("lower", "upper", "size")
MOST_BYTES = 2**60
"""Of all buffers together, so that no sum overflows."""


@dataclass(frozen=True, eq=False)
class Buffers:
    """Lifetimes and sizes, an entry a buffer."""

    lower: Ints  # first step at which a buffer is alive
    upper: Ints  # first step at which it no longer is
    size: Ints  # in bytes

    def __post_init__(self) -> None:
        lower, upper, size = self.lower, self.upper, self.size
        _refuse(size < 0, lambda row: f"has {size[row]} bytes; a size is at least 0")
        _refuse(
            upper < lower, lambda row: f"ends at {upper[row]}, before it begins at {lower[row]}"
        )
        if (total := size.sum(dtype=np.float64)) > MOST_BYTES:
            raise UserError(
                f"the buffers have {total:.3g} bytes together; at most {MOST_BYTES} fit"
            )

    def __len__(self) -> int:
        return len(self.size)

    def __getitem__(self, chosen: NDArray[Any]) -> Buffers:
        return Buffers(self.lower[chosen], self.upper[chosen], self.size[chosen])

    @property
    def takes_memory(self) -> NDArray[np.bool_]:
        """Which have bytes and a lifetime."""
        return (self.size > 0) & (self.lower < self.upper)


def read(table: Table | Buffers) -> Buffers:
    """Check a frame with the columns `lower`, `upper` and `size`, or what makes one.

    Raises ValueError: a column is missing or holds anything but whole numbers, a size is negative,
    a buffer ends before it begins, or all sizes together exceed `MOST_BYTES`.
    """
    if isinstance(table, Buffers):
        return table
    try:
        frame = table if isinstance(table, pl.DataFrame) else pl.DataFrame(table)
    except pl.exceptions.ShapeError as error:
        raise UserError(f"the buffers make no table: {error}") from None
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise UserError(
            f"the buffers have no column {', '.join(missing)}; they need {', '.join(COLUMNS)}"
        )
    lower, upper, size = (_whole(name, frame[name]) for name in COLUMNS)
    return Buffers(lower, upper, size)


def _whole(name: str, column: pl.Series) -> Ints:
    plain = column if column.dtype.is_numeric() else pl.Series([None] * len(column), dtype=pl.Int64)
    whole = plain.cast(pl.Int64, strict=False)
    fits = (whole == plain) & whole.is_between(-MOST_BYTES, MOST_BYTES)
    wrong = (~fits.fill_null(value=False)).arg_true()
    if len(wrong):
        value, row = column[wrong[0]], wrong[0]
        raise UserError(
            f"column {name} has {value!r} in row {row}; give whole numbers of at most {MOST_BYTES}"
        )
    return whole.to_numpy()


def _refuse(wrong: NDArray[np.bool_], reason: Callable[[int], str]) -> None:
    rows = np.flatnonzero(wrong)
    if len(rows):
        raise UserError(f"the buffer in row {rows[0]} {reason(int(rows[0]))}")

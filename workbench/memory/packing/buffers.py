"""Buffers to pack, and the certificates of a packing: its peak, the bound, no overlaps."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from workbench.utils.checks import UserError

Ints = NDArray[np.int64]
Table = pl.DataFrame | Mapping[str, Any]

COLUMNS = ("lower", "upper", "size")
MOST_BYTES = 2**60
"""Limit for all buffers together, so that no sum overflows."""


@dataclass(frozen=True, eq=False)
class Buffers:
    """Lifespans ``[lower, upper)`` in steps, and sizes in bytes, an entry a buffer."""

    lower: Ints
    upper: Ints
    size: Ints

    def select(self, chosen: NDArray[np.bool_]) -> Buffers:
        """Keep some of the buffers."""
        return Buffers(self.lower[chosen], self.upper[chosen], self.size[chosen])

    @property
    def takes_memory(self) -> NDArray[np.bool_]:
        """Whether each buffer has bytes and a lifespan."""
        return (self.size > 0) & (self.lower < self.upper)


def read(table: Table) -> Buffers:
    """Check a table with whole numbers in the columns `lower`, `upper` and `size`.

    Raises ValueError: a column is missing or of another type, a size is negative, a buffer ends
    before it begins, or all sizes together exceed `MOST_BYTES`.
    """
    frame = pl.DataFrame(table)
    for name in COLUMNS:
        column = frame.get_column(name, default=None)
        if column is None or not column.dtype.is_integer() or column.has_nulls():
            raise UserError(
                f"the buffers have no column {name} of whole numbers; give {', '.join(COLUMNS)}"
            )
    lower, upper, size = (frame[name].cast(pl.Int64).to_numpy() for name in COLUMNS)
    wrong = np.flatnonzero((size < 0) | (upper < lower))
    if len(wrong):
        row = wrong[0]
        raise UserError(
            f"the buffer in row {row} has {size[row]} bytes and ends at {upper[row]}, having begun "
            f"at {lower[row]}; a size is at least 0, and no buffer ends before it begins"
        )
    if (total := size.sum(dtype=np.float64)) > MOST_BYTES:
        raise UserError(f"the buffers have {total:.3g} bytes together; at most {MOST_BYTES} fit")
    return Buffers(lower, upper, size)


def bound(table: Table) -> int:
    """Most bytes alive at once; no packing has a lower peak."""
    buffers = read(table)
    alive = buffers.select(buffers.takes_memory)
    step = np.concatenate([alive.upper, alive.lower])  # at the same step, ends come first
    change = np.concatenate([-alive.size, alive.size])
    return int(change[np.argsort(step, kind="stable")].cumsum().max(initial=0))


def peak(table: Table, offsets: ArrayLike) -> int:
    """Peak of a packing in bytes: its highest address in use."""
    buffers = read(table)
    ends = _checked(offsets, buffers) + buffers.size
    return int(ends[buffers.takes_memory].max(initial=0))


def check(table: Table, offsets: ArrayLike) -> None:
    """Raise ValueError if an offset is negative or two buffers share an address while both live.

    A sweep over time keeps the live buffers by address. As long as they do not overlap, a new one
    can only run into its two neighbours.
    """
    buffers = read(table)
    array = _checked(offsets, buffers)
    if (array < 0).any():
        raise UserError(f"the buffer in row {array.argmin()} lies at {array.min()}, below 0")
    first, last = array.tolist(), (array + buffers.size).tolist()
    rows = np.flatnonzero(buffers.takes_memory).tolist()
    events = [(int(buffers.upper[row]), False, row) for row in rows]  # before what begins then
    events += [(int(buffers.lower[row]), True, row) for row in rows]
    alive: list[tuple[int, int]] = []  # offset and row
    for step, begins, row in sorted(events):
        place = bisect_left(alive, (first[row], row))
        if not begins:
            del alive[place]
            continue
        for begin, other in alive[max(place - 1, 0) : place + 1]:
            if first[row] < last[other] and begin < last[row]:
                raise UserError(
                    f"at step {step} the buffers in rows {other} and {row} overlap: bytes "
                    f"{begin} to {last[other]} and {first[row]} to {last[row]}"
                )
        alive.insert(place, (first[row], row))


def _checked(offsets: ArrayLike, buffers: Buffers) -> Ints:
    """Offsets as an array: a whole number for each buffer."""
    array = np.asarray(offsets)
    if array.shape != buffers.size.shape or (array.size and array.dtype.kind not in "iu"):
        raise UserError(
            f"the offsets are {array.dtype} of shape {array.shape}; give a whole number for each "
            f"of {len(buffers.size)} buffers"
        )
    return array.astype(np.int64)

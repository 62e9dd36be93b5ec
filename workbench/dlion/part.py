"""A part of a gradient as it is sent: per weight variable, in the encoding of the fewest bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

Values = NDArray[Any]
INDEX = np.dtype(np.int32)
LONG = 64_000
"""Length from which Polars' filter, several times as fast as NumPy's, is worth a call of 30 µs."""


class Piece(NamedTuple):
    """Values of one weight variable, or of any range; its arrays are read-only.

    `at` is None where all are sent; or int32 positions in the variable; or, as uint8, a bitmap.
    """

    variable: slice
    values: Values
    at: NDArray[Any] | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of its arrays."""
        return self.values.nbytes + (0 if self.at is None else self.at.nbytes)

    def add_to(self, flat: Values, scale: float) -> None:
        """Add the values, times `scale`, to a flat vector."""
        target, added = flat[self.variable], self.values * flat.dtype.type(scale)
        if self.at is None:
            target += added
        elif self.at.dtype == np.uint8:
            target[np.flatnonzero(np.unpackbits(self.at, count=len(target)))] += added
        else:
            target[self.at] += added


@dataclass(frozen=True, eq=False)
class Part:
    """Part of a gradient: the pieces of its weight variables, none of a variable without values."""

    pieces: tuple[Piece, ...]

    @cached_property
    def size_bytes(self) -> int:
        """Bytes on a link."""
        return sum(piece.size_bytes for piece in self.pieces)

    @cached_property
    def values(self) -> int:
        """Number of values that are sent; in a dense piece all count."""
        return sum(len(piece.values) for piece in self.pieces)

    def add_to(self, flat: Values, scale: float) -> None:
        """Add it, times `scale`, to a flat vector."""
        for piece in self.pieces:
            piece.add_to(flat, scale)

    @classmethod
    def whole(cls, gradient: Values, variables: Sequence[slice]) -> Part:
        """A copy of all values."""
        copied = _read_only(gradient.copy())
        return cls(tuple(Piece(variable, copied[variable]) for variable in variables))

    @classmethod
    def selected(
        cls, gradient: Values, mask: NDArray[np.bool_], variables: Sequence[slice]
    ) -> Part:
        """Make a part of the values that a mask selects from a flat gradient of the same length."""
        pieces = []
        for variable in variables:
            chosen, values = mask[variable], gradient[variable]
            count = int(np.count_nonzero(chosen))
            if count:
                pieces.append(_encoded(variable, values, chosen, count))
        return cls(tuple(pieces))


def encoded_bytes(count: Any, size: Any, item_bytes: int) -> Any:
    """Bytes of `count` of a variable's `size` values in the cheapest encoding; arrays, too."""
    dense, mapped, indexed = _sizes(count, size, item_bytes)
    return np.where(count == 0, 0, np.minimum(np.minimum(dense, mapped), indexed))


def _sizes(count: float, size: float, item_bytes: int) -> tuple[float, float, float]:
    """Bytes of all values, of values and a bitmap, and of values and positions."""
    mapped = count * item_bytes + (size + 7) // 8
    return size * item_bytes, mapped, count * (item_bytes + INDEX.itemsize)


def _encoded(variable: slice, values: Values, chosen: NDArray[np.bool_], count: int) -> Piece:
    dense, mapped, indexed = _sizes(count, len(values), values.itemsize)
    if dense <= min(mapped, indexed):
        return Piece(variable, _read_only(_zeroed(values, chosen)))
    if mapped < indexed:
        return Piece(
            variable, _read_only(_filtered(values, chosen)), _read_only(np.packbits(chosen))
        )
    positions = np.flatnonzero(chosen)
    return Piece(variable, _read_only(values[positions]), _read_only(positions.astype(INDEX)))


def _zeroed(values: Values, chosen: NDArray[np.bool_]) -> Values:
    """A copy with zeros in place of what is not chosen, even infinite values."""
    zeroed = np.empty_like(values)
    bits = np.dtype(f"u{values.itemsize}")  # a product is several times as fast as np.where
    np.multiply(values.view(bits), chosen, out=zeroed.view(bits))
    return zeroed


def _filtered(values: Values, chosen: NDArray[np.bool_]) -> Values:
    if len(values) < LONG:
        return values[np.flatnonzero(chosen)]
    return pl.Series(values).filter(pl.Series(chosen)).to_numpy(writable=True)


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array

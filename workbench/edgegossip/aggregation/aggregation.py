"""Result of the aggregator: subsets of similar points, and one point for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.utils.checks import UserError, check_number

FloatArray = NDArray[np.floating[Any]]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Aggregation:
    """N original points in M subsets, each with its aggregated point (Han et al. 2021, Sec. 3.2).

    The paper's symbols: X is the original points, X_i is `subset(i)`, a_i is ``points[i]``. Arrays
    cannot be written to.

    Parameters
    ----------
    points
        Aggregated points, (M, d...), shaped as the original ones.
    labels
        Class of each subset, (M,), int64.
    members
        Subset of each original point, (N,), int64 from 0 to M-1.
    ratio
        Original points for each aggregated one, as asked for; at least 1.

    """

    points: FloatArray
    labels: Indices
    members: Indices
    ratio: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", check_ratio(self.ratio))
        count = len(self.points)
        if self.points.ndim < 2 or not self.points.size or not np.isfinite(self.points).all():
            raise UserError(
                f"points of shape {self.points.shape} must be finite, "
                "a row for each aggregated point, at least one"
            )
        for name, needed in (("labels", (count,)), ("members", (len(self.members),))):
            array = getattr(self, name)
            if array.dtype != np.int64 or array.shape != needed:
                raise UserError(
                    f"{name} is {array.dtype} of shape {array.shape}; it must be int64, {needed}"
                )
        named = np.unique(self.members)
        if not np.array_equal(named, np.arange(count)):
            raise UserError(
                f"members must name each of the {count} subsets, 0 to {count - 1}, and no other; "
                f"they name {len(named)}"
            )
        for name in ("points", "labels", "members"):
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        """Aggregated points, M."""
        return len(self.points)

    def subset(self, number: int) -> Indices:
        """Indices of the original points of aggregated point `number`, ascending."""
        if not 0 <= number < len(self):
            raise IndexError(f"subset {number} is not one of 0 to {len(self) - 1}")
        return self._subsets[number]

    @cached_property
    def sizes(self) -> Indices:
        """Original points in each subset, (M,)."""
        return np.bincount(self.members, minlength=len(self)).astype(np.int64)

    @cached_property
    def _subsets(self) -> list[Indices]:
        order = np.argsort(self.members, kind="stable").astype(np.int64)
        order.flags.writeable = False
        return np.split(order, np.cumsum(self.sizes)[:-1])


def check_ratio(ratio: object) -> float:
    """Return an aggregation ratio as a float of at least 1."""
    value = check_number("ratio", ratio)
    if not 1 <= value < np.inf:
        raise UserError(
            f"ratio is {value:g}; it says how many original points one aggregated point stands "
            "for, so give a finite number of at least 1"
        )
    return value

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

    The paper's symbols: X is the original points, X_i is `subset(i)`, a_i is ``points[i]``.

    Attributes
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

    def __len__(self) -> int:
        """Aggregated points, M."""
        return len(self.points)

    def subset(self, number: int) -> Indices:
        """Indices of the original points of aggregated point `number`, ascending."""
        return self._subsets[number]

    @cached_property
    def sizes(self) -> Indices:
        """Original points in each subset, (M,)."""
        return np.bincount(self.members, minlength=len(self)).astype(np.int64)

    @cached_property
    def _subsets(self) -> list[Indices]:
        order = np.argsort(self.members, kind="stable").astype(np.int64)
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

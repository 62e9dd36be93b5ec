"""The largest values of a flat vector, which sparse exchanges send."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Values


def count_of(share: float, values: float) -> int:
    """How many values a share of them is, rounded down, at least one."""
    return max(1, int(share * values))


def largest(values: Values, share: float) -> NDArray[np.intp]:
    """Positions, ascending, of the largest share by magnitude, as `count_of`; of equals the first.

    Found without sorting all: those above the smallest that is taken, then the first equal to it.
    """
    count = count_of(share, len(values))
    magnitudes = np.abs(values)
    least = np.partition(magnitudes, -count)[-count]
    above = np.flatnonzero(magnitudes > least)
    equal = np.flatnonzero(magnitudes == least)[: count - len(above)]
    return np.sort(np.concatenate([above, equal]))

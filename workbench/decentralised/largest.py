"""The largest values of a flat vector, which sparse exchanges send."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Values


def largest(values: Values, share: float) -> NDArray[np.intp]:
    """Positions, ascending, of the largest share by magnitude, at least one; of equals the first.

    Found without sorting all: those above the smallest that is taken, then the first equal to it.
    """
    count = max(1, int(share * len(values)))
    sizes = np.abs(values)
    least = np.partition(sizes, -count)[-count]
    above = np.flatnonzero(sizes > least)
    equal = np.flatnonzero(sizes == least)[: count - len(above)]
    return np.sort(np.concatenate([above, equal]))

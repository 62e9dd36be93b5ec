"""Reduce each point to the histogram of its values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray

BINS = 10
"""As many as the other techniques keep dimensions; the paper does not say how many."""


def histogram(x: FloatArray, ratio: float = 10, seed: int = 0) -> NDArray[np.float64]:
    """Return the share of each point's values in ten bins of equal width, (N, 10).

    The bins reach from the smallest to the largest value of the whole data set; the place of a
    value in an image is lost. `ratio` and `seed` have no effect.
    """
    flat = x.reshape(len(x), -1)
    edges = np.linspace(float(flat.min()), float(flat.max()), BINS + 1)[1:-1]
    # One bin more for each edge that a value reaches: counts from each edge on, then differences.
    reaching = [np.count_nonzero(flat >= edge, axis=1) for edge in edges]
    counts = [np.full(len(flat), flat.shape[1]), *reaching, np.zeros(len(flat))]
    return -np.diff(np.stack(counts, axis=1), axis=1) / flat.shape[1]

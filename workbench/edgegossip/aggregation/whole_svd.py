"""Reduce by the singular value decomposition of the whole data set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray

VALUES = 10


def whole_svd(x: FloatArray, ratio: float = 10, seed: int = 0) -> NDArray[np.float64]:
    """Return the points along the right singular vectors of the ten largest values, (N, d').

    Smaller data has as many columns as N and d allow. `ratio` has no effect.

    Deviation: decomposed by random projection and power iterations (Halko, Martinsson and Tropp
    2011), so in O(N d d') where the paper, by its times, decomposes in full.
    """
    from sklearn.utils.extmath import randomized_svd

    flat = x.reshape(len(x), -1)
    u, values, _ = randomized_svd(flat, min(VALUES, *flat.shape), random_state=seed)
    reduced: NDArray[np.float64] = (u * values).astype(np.float64)
    return reduced

"""Reduce by the singular value decomposition of the whole data set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray

VALUES = 10


def whole_svd(x: FloatArray, ratio: float = 10, seed: int = 0) -> NDArray[np.float64]:
    """Return the points along the right singular vectors of the ten largest values, (N, d').

    Smaller data has as many columns as N and d allow. Decomposed in full, in O(N d min(N, d)), as
    the paper does by its times. `ratio` and `seed` have no effect.
    """
    flat = x.reshape(len(x), -1)
    u, values, _ = np.linalg.svd(flat, full_matrices=False)
    reduced: NDArray[np.float64] = (u[:, :VALUES] * values[:VALUES]).astype(np.float64)
    return reduced


def randomised_svd(x: FloatArray, ratio: float = 10, seed: int = 0) -> NDArray[np.float64]:
    """Return what `whole_svd` does, by random projections in O(N d d').

    With power iterations (Halko, Martinsson and Tropp 2011).
    """
    from sklearn.utils.extmath import randomized_svd

    flat = x.reshape(len(x), -1)
    u, values, _ = randomized_svd(flat, min(VALUES, *flat.shape), random_state=seed)
    reduced: NDArray[np.float64] = (u * values).astype(np.float64)
    return reduced

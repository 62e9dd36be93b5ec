"""Reduce to principal components."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray

COMPONENTS = 10
"""As many as the paper keeps singular values; it does not say how many components."""


def pca(x: FloatArray, ratio: float = 10, seed: int = 0) -> NDArray[np.float64]:
    """Return the points along the ten directions of largest variance, (N, d').

    Smaller data has as many columns as N and d allow. Decomposed in full, in O(N d min(N, d)), as
    the paper does by its times. `ratio` and `seed` have no effect.
    """
    return _fitted(x, "full", None)


def randomised_pca(x: FloatArray, ratio: float = 10, seed: int = 0) -> NDArray[np.float64]:
    """Return what `pca` does, by random projections in O(N d d') (Halko et al. 2011)."""
    return _fitted(x, "randomized", seed)


def _fitted(x: FloatArray, solver: str, seed: int | None) -> NDArray[np.float64]:
    from sklearn.decomposition import PCA

    flat = x.reshape(len(x), -1)
    if (flat == flat[0]).all():
        return np.zeros((len(flat), 1))  # no variance: scikit-learn would divide by it
    fitted = PCA(min(COMPONENTS, *flat.shape), svd_solver=solver, random_state=seed)
    reduced: NDArray[np.float64] = fitted.fit_transform(flat).astype(np.float64)
    return reduced

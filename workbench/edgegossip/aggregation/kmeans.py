"""Divide by k-means."""

from __future__ import annotations

import warnings

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices
from workbench.edgegossip.aggregation.shares import check_parts

ITERATIONS = 20
"""At most (Han et al. 2021, Sec. 4.3)."""


def kmeans(x: FloatArray, parts: int, seed: int = 0) -> Indices:
    """Divide points into the clusters of one run of Lloyd's algorithm.

    Started by k-means++. A cluster that loses all its points is put where the farthest point
    lies; only where fewer points than clusters differ do some stay empty.

    Parameters
    ----------
    x
        Reduced points, (n, d').
    parts
        Clusters, 1 to n.
    seed
        Draws the first centres; below 2^32.

    Returns
    -------
    numpy.ndarray
        Cluster of each point, (n,), from 0 to ``parts - 1``.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    check_parts(parts, len(x))
    fitted = KMeans(parts, n_init=1, max_iter=ITERATIONS, random_state=seed)
    with warnings.catch_warnings():
        # Equal points: what then happens is documented.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels: Indices = fitted.fit_predict(x).astype("int64")
    return labels

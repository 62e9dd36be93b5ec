"""Divide by k-means."""

from __future__ import annotations

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices
from workbench.edgegossip.aggregation.divider import check_parts, fitted_labels

ITERATIONS = 20
"""At most (Han et al. 2021, Sec. 4.3)."""


def kmeans(x: FloatArray, parts: int, seed: int = 0) -> Indices:
    """Divide points into the clusters of one run of Lloyd's algorithm; a `Divider`.

    Started by k-means++, until no point moves. A cluster that loses all its points moves to the
    farthest point; only with fewer distinct points than clusters do some stay empty.
    """
    from sklearn.cluster import KMeans

    check_parts(parts, len(x))
    lloyd = KMeans(parts, n_init=1, max_iter=ITERATIONS, tol=0, random_state=seed)
    return fitted_labels(lloyd, x)

"""Divide by a mixture of Gaussians."""

from __future__ import annotations

import numpy as np

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices
from workbench.edgegossip.aggregation.divider import check_parts, fitted_labels

ITERATIONS = 20
"""At most; as for k-means, the paper gives none for the mixture."""


def gaussian_mixture(x: FloatArray, parts: int, seed: int = 0) -> Indices:
    """Divide points by which Gaussian each most probably comes from; a `Divider`.

    Full covariances, expectation maximisation started by k-means. Some Gaussians may be no point's
    most probable one; their subsets stay empty.
    """
    from sklearn.mixture import GaussianMixture

    check_parts(parts, len(x))
    if len(x) == 1:
        return np.zeros(1, np.int64)  # scikit-learn wants two
    # scikit-learn's regularisation of the covariances is meant for variances of about 1.
    # Most features decide, not one in which classes are far apart.
    scale = np.median(x.std(axis=0)) or x.std() or 1.0
    even = ((x - x.mean(axis=0)) / scale).astype(np.float64)
    return fitted_labels(GaussianMixture(parts, max_iter=ITERATIONS, random_state=seed), even)

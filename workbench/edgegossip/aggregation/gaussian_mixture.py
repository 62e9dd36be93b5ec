"""Divide by a mixture of Gaussians."""

from __future__ import annotations

import warnings

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices
from workbench.edgegossip.aggregation.shares import check_parts

ITERATIONS = 20
"""At most; as for k-means, the paper gives none for the mixture."""


def gaussian_mixture(x: FloatArray, parts: int, seed: int = 0) -> Indices:
    """Divide points by which Gaussian each most probably comes from.

    Full covariances, expectation maximisation from the clusters of k-means on. Some Gaussians may
    be nobody's most probable one; their subsets stay empty.

    Parameters
    ----------
    x
        Reduced points, (n, d').
    parts
        Gaussians, 1 to n.
    seed
        Draws the first centres; below 2^32.

    Returns
    -------
    numpy.ndarray
        Gaussian of each point, (n,), from 0 to ``parts - 1``.
    """
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    check_parts(parts, len(x))
    if len(x) == 1:
        return np.zeros(1, np.int64)  # scikit-learn wants two
    # What is added to each variance, so that a Gaussian of few points has a density, is meant
    # for variances of about 1.
    even = (x - x.mean(axis=0)) / (x.std() or 1.0)
    fitted = GaussianMixture(parts, max_iter=ITERATIONS, random_state=seed)
    with warnings.catch_warnings():
        # Neither equal points nor stopping after 20 iterations is news to the user.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels: Indices = fitted.fit_predict(even.astype(np.float64)).astype(np.int64)
    return labels

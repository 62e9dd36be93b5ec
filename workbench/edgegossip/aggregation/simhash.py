"""Reduce by hashing: sums of the features under random signs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray

LENGTH = 10
"""Length of the fingerprint, d' (Han et al. 2021, Sec. 4.3)."""


def simhash(x: FloatArray, ratio: float = 10, seed: int = 0) -> NDArray[np.float64]:
    """Return the fingerprint of each point: ten sums of its features, each under signs of its own.

    Deviation: the paper names neither the hash nor what its fingerprint is made of. This is
    similarity hashing (Charikar, STOC 2002) before the sums are cut down to their signs: ten bits
    tell no more than 1,024 points apart, and hardly any within a class, so that k-means would
    find fewer places than it is to have clusters.

    Parameters
    ----------
    x
        Points, (N, d...).
    ratio
        Of no effect: the length is fixed.
    seed
        Draws the signs.

    Returns
    -------
    numpy.ndarray
        (N, 10); distances are those of the points times about sqrt(10).
    """
    flat = x.reshape(len(x), -1)
    signs = np.random.default_rng(seed).choice((-1, 1), (flat.shape[1], LENGTH))
    sums: NDArray[np.float64] = (flat @ signs.astype(flat.dtype)).astype(np.float64)
    return sums

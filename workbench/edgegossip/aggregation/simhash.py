"""Reduce by hashing: sums of the features under random signs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray

LENGTH = 10
"""Length of the fingerprint, d' (Han et al. 2021, Sec. 4.3)."""


def simhash(x: FloatArray, ratio: float = 10, seed: int = 0) -> NDArray[np.float64]:
    """Return ten sums of each point's features under random signs, (N, 10).

    Distances are those of the points times about sqrt(10). `ratio` has no effect.

    Deviation: the paper names neither the hash nor its fingerprint. This is similarity hashing
    (Charikar, STOC 2002) before the sums are cut to their signs: ten bits distinguish no more than
    1,024 points, and hardly any within a class, so that k-means would find too few distinct points.
    """
    flat = x.reshape(len(x), -1)
    signs = np.random.default_rng(seed).choice((-1, 1), (flat.shape[1], LENGTH))
    sums: NDArray[np.float64] = (flat @ signs.astype(flat.dtype)).astype(np.float64)
    return sums

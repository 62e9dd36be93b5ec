"""Reduce each point on its own: the singular values of its image."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray

VALUES = 10
"""Singular values kept (Han et al. 2021, Sec. 4.3)."""

AT_ONCE = 4096
"""Points decomposed in one call, so that memory does not grow with the data set."""


def single_svd(x: FloatArray, ratio: float = 10, seed: int = 0) -> NDArray[np.float64]:
    """Return the largest singular values of each point, taken as a matrix; (N, d').

    `x` is (N, d), (N, H, W) or (N, C, H, W). An image of several channels is one matrix, channel
    below channel; a vector is folded, row by row, into the squarest matrix that holds it, padded
    with zeros. That makes O(N d^(3/2)) of Table 3. A small image has fewer than ten values; then
    all are kept. `ratio` and `seed` have no effect.
    """
    matrices = folded(x)
    return np.concatenate(
        [
            np.linalg.svd(matrices[first : first + AT_ONCE].astype(np.float64), compute_uv=False)
            for first in range(0, len(matrices), AT_ONCE)
        ]
    )[:, :VALUES]


def folded(x: FloatArray) -> FloatArray:
    """Points as matrices, (N, rows, columns)."""
    if x.ndim > 2:
        return x.reshape(len(x), -1, x.shape[-1])
    columns = math.isqrt(x.shape[1] - 1) + 1
    rows = -(-x.shape[1] // columns)
    return np.pad(x, ((0, 0), (0, rows * columns - x.shape[1]))).reshape(len(x), rows, columns)

"""Reducers: points in fewer dimensions, so that similar ones are found quickly.

Each takes points (N, d...), the aggregation ratio and a seed, and returns (N, d'); of ratio and
seed, most use neither. Incremental SVD has a module of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray

Reducer = Callable[[FloatArray, float, int], FloatArray]
Reduced = NDArray[np.float64]

VALUES = 10
"""Singular values kept (Han et al. 2021, Sec. 4.3), and components, of which it says nothing."""
LENGTH = 10
"""Length of the fingerprint, d' (Sec. 4.3)."""
BINS = 10
"""Bins of a histogram: as many as other techniques keep dimensions; the paper does not say."""
AT_ONCE = 4096
"""Points decomposed in one call, so that memory does not grow with the data set."""


def single_svd(x: FloatArray, ratio: float = 10, seed: int = 0) -> Reduced:
    """Return the largest singular values of each point, taken as a matrix; (N, d').

    An image of several channels is one matrix, channel below channel; a vector is folded, row by
    row, into the squarest matrix that holds it, padded with zeros. That makes O(N d^(3/2)) of Table
    3. A small image has fewer than ten values; then all are kept.
    """
    matrices = folded(x)
    blocks = (matrices[first : first + AT_ONCE] for first in range(0, len(matrices), AT_ONCE))
    values = [np.linalg.svd(block.astype(np.float64), compute_uv=False) for block in blocks]
    return np.concatenate(values)[:, :VALUES]


def folded(x: FloatArray) -> FloatArray:
    """Points as matrices, (N, rows, columns)."""
    if x.ndim > 2:
        return x.reshape(len(x), -1, x.shape[-1])
    columns = math.isqrt(x.shape[1] - 1) + 1
    rows = -(-x.shape[1] // columns)
    return np.pad(x, ((0, 0), (0, rows * columns - x.shape[1]))).reshape(len(x), rows, columns)


def whole_svd(x: FloatArray, ratio: float = 10, seed: int = 0) -> Reduced:
    """Return the points along the right singular vectors of the ten largest values, (N, d').

    Smaller data has as many columns as N and d allow. Decomposed in full, in O(N d min(N, d)), as
    the paper does by its times; so is `pca`.
    """
    u, values, _ = np.linalg.svd(x.reshape(len(x), -1), full_matrices=False)
    return np.asarray(u[:, :VALUES] * values[:VALUES], np.float64)


def pca(x: FloatArray, ratio: float = 10, seed: int = 0) -> Reduced:
    """Return the points along the ten directions of largest variance, (N, d')."""
    from sklearn.decomposition import PCA

    flat = x.reshape(len(x), -1)
    if (flat == flat[0]).all():
        return np.zeros((len(flat), 1))  # no variance: scikit-learn would divide by it
    components = PCA(min(VALUES, *flat.shape), svd_solver="full")
    return np.asarray(components.fit_transform(flat), np.float64)


def simhash(x: FloatArray, ratio: float = 10, seed: int = 0) -> Reduced:
    """Return ten sums of each point's features under random signs, (N, 10).

    Distances are those of the points times about sqrt(10).

    Deviation: the paper names neither the hash nor its fingerprint. This is similarity hashing
    (Charikar, STOC 2002) before the sums are cut to their signs: ten bits distinguish no more than
    1,024 points, and hardly any within a class, so that k-means would find too few distinct points.
    """
    flat = x.reshape(len(x), -1)
    signs = np.random.default_rng(seed).choice((-1, 1), (flat.shape[1], LENGTH))
    return np.asarray(flat @ signs.astype(flat.dtype), np.float64)


def histogram(x: FloatArray, ratio: float = 10, seed: int = 0) -> Reduced:
    """Return the share of each point's values in ten bins of equal width, (N, 10).

    The bins reach from the smallest to the largest value of the whole data set; the place of a
    value in an image is lost.
    """
    flat = x.reshape(len(x), -1)
    edges = np.linspace(float(flat.min()), float(flat.max()), BINS + 1)[1:-1]
    # One bin more for each edge that a value reaches: counts from each edge on, then differences.
    reaching = [np.count_nonzero(flat >= edge, axis=1) for edge in edges]
    counts = [np.full(len(flat), flat.shape[1]), *reaching, np.zeros(len(flat))]
    return -np.diff(np.stack(counts, axis=1), axis=1) / flat.shape[1]

"""Dividers: reduced points into subsets of similar ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices

Divider = Callable[[FloatArray, int, int], Indices]
"""Reduced points, (n, d'); subsets asked for, 1 to n; seed, below 2^32 -> subset of each, (n,).

Subsets are int64, from 0 to one below what was asked for; some may stay empty.
"""

ITERATIONS = 20
"""At most, of k-means (Han et al. 2021, Sec. 4.3); the paper gives none for the mixture."""


def kmeans(x: FloatArray, parts: int, seed: int = 0) -> Indices:
    """Divide points into the clusters of one run of Lloyd's algorithm; a `Divider`.

    Started by k-means++, until no point moves. Only with fewer distinct points than clusters do
    some stay empty.
    """
    from sklearn.cluster import KMeans

    lloyd = KMeans(parts, n_init=1, max_iter=ITERATIONS, tol=0, random_state=seed)
    return _fitted_labels(lloyd, x)


def gaussian_mixture(x: FloatArray, parts: int, seed: int = 0) -> Indices:
    """Divide points by which Gaussian each most probably comes from; a `Divider`.

    Full covariances, expectation maximisation started by k-means. A Gaussian that is no point's
    most probable one leaves an empty subset.
    """
    from sklearn.mixture import GaussianMixture

    if len(x) == 1:
        return np.zeros(1, np.int64)  # scikit-learn wants two
    # scikit-learn's regularisation of the covariances is meant for variances of about 1.
    # Most features decide, not one in which classes are far apart.
    scale = np.median(x.std(axis=0)) or x.std() or 1.0
    even = ((x - x.mean(axis=0)) / scale).astype(np.float64)
    return _fitted_labels(GaussianMixture(parts, max_iter=ITERATIONS, random_state=seed), even)


def _fitted_labels(model: Any, x: FloatArray) -> Indices:
    from sklearn.exceptions import ConvergenceWarning

    # Equal points, and stopping after the paper's iterations, are expected.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels: Indices = model.fit_predict(x).astype(np.int64)
    return labels


def lsh(x: FloatArray, parts: int, seed: int = 0) -> Indices:
    """Divide points into `parts` buckets of nearly the same size; a `Divider`.

    Locality-sensitive hashing as a balanced tree of random projections. Each level projects all
    points on one random direction and cuts every bucket in two, its points in proportion to the
    buckets to be made. Equal points are never parted: a cut goes to the nearest place between
    points that differ. With fewer distinct points than buckets, each gets its own, and the other
    buckets stay empty. Sorting makes O(d' N log N), as in Table 3.

    Deviation: the paper says only that LSH makes N / ratio buckets (Sec. 4.3). Signs against random
    hyperplanes, or stretches of random projections, make a number of buckets that cannot be chosen,
    many of them empty. So thresholds here divide the points at hand (Dasgupta and Freund, STOC
    2008, in whose trees each node draws a direction of its own).
    """
    rng = np.random.default_rng(seed)
    # Distinct points: the first of each, which of them each point is, how often each occurs.
    _, first, kind, weight = np.unique(
        x, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    parts = min(parts, len(first))
    bucket = np.zeros(len(first), np.int64)  # the first of the final buckets that a kind may be in
    wide = np.array([parts])  # final buckets that each bucket so far is to be split into
    heads = np.array([0])  # number of the first of them
    while wide.max() > 1:
        score = (x @ rng.standard_normal(x.shape[1]))[first]
        order = np.lexsort((score, bucket))
        ends = np.searchsorted(bucket[order], heads + wide)
        starts = np.append(0, ends[:-1])
        left = wide // 2
        before = np.append(0, np.cumsum(weight[order]))  # points in front of each place
        wanted = before[starts] + (before[ends] - before[starts]) * left // wide
        cut = np.searchsorted(before, wanted)
        cut -= (cut > 0) & (wanted - before[cut - 1] < before[cut] - wanted)
        cut = np.clip(cut, starts + left, ends - (wide - left))  # no bucket gets too few kinds
        upper = np.arange(len(first)) >= np.repeat(cut, ends - starts)
        bucket[order] += np.where(upper, np.repeat(left, ends - starts), 0)
        heads = np.sort(np.concatenate([heads, (heads + left)[left > 0]]))
        wide = np.diff(np.append(heads, parts))
    return bucket[kind.reshape(-1)]

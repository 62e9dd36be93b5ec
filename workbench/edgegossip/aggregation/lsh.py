"""Locality-sensitive hashing: points with the same signs against random hyperplanes."""

from __future__ import annotations

import numpy as np

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices
from workbench.edgegossip.aggregation.shares import check_parts


def lsh(x: FloatArray, parts: int, seed: int = 0) -> Indices:
    """Divide points into so many buckets, none of them empty.

    Sign hashing, one bit after the other: a bit's random direction is the same for all points,
    its threshold lies, in each bucket so far, where it splits the points as the buckets to be
    made. All buckets so have nearly the same size. Sorting makes O(d' N log N), as in Table 3.

    Deviation: hashing with thresholds that are drawn too makes a number of buckets that cannot be
    chosen, many of them empty; the paper has exactly N / ratio.

    Parameters
    ----------
    x
        Reduced points, (n, d').
    parts
        Buckets, 1 to n.
    seed
        Draws the directions.

    Returns
    -------
    numpy.ndarray
        Bucket of each point, (n,), from 0 to ``parts - 1``.
    """
    check_parts(parts, len(x))
    rng = np.random.default_rng(seed)
    count = len(x)
    bucket = np.zeros(count, np.int64)  # the first of the final buckets that a point may be in
    wide = np.array([parts])  # final buckets that each bucket so far is to be split into
    heads = np.array([0])  # number of the first of them
    while wide.max() > 1:
        score = x @ rng.standard_normal(x.shape[1])
        order = np.lexsort((score, bucket))
        sizes = np.bincount(np.searchsorted(heads, bucket), minlength=len(heads))
        left = wide // 2
        kept = sizes * left // wide  # enough for each side, since a bucket never holds too few
        rank = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        upper = rank >= np.repeat(np.where(left > 0, kept, sizes), sizes)
        bucket[order] += np.where(upper, np.repeat(left, sizes), 0)
        heads = np.sort(np.concatenate([heads, (heads + left)[left > 0]]))
        wide = np.diff(np.append(heads, parts))
    return bucket

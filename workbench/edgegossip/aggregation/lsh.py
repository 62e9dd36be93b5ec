"""Locality-sensitive hashing in the form of a balanced random-projection tree."""

from __future__ import annotations

import numpy as np

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices
from workbench.edgegossip.aggregation.divider import check_parts


def lsh(x: FloatArray, parts: int, seed: int = 0) -> Indices:
    """Divide points into so many buckets of nearly the same size; a `Divider`.

    Each level of the tree projects all points on one random direction and cuts every bucket in two,
    its points in proportion to the buckets to be made; similar points are mostly on the same side.
    Equal points are never parted: a cut goes to the nearest place between points that differ. With
    fewer distinct points than buckets, each gets its own, and the other buckets stay empty. Sorting
    makes O(d' N log N), as in Table 3.

    Deviation: the paper says only that LSH makes N / ratio buckets (Sec. 4.3). Signs against random
    hyperplanes, or stretches of random projections, make a number of buckets that cannot be chosen,
    many of them empty. So thresholds here divide the points at hand (Dasgupta and Freund, STOC
    2008, in whose trees each node draws a direction of its own).
    """
    check_parts(parts, len(x))
    rng = np.random.default_rng(seed)
    first, kind, weight = _distinct(x)
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
    return bucket[kind]


def _distinct(x: FloatArray) -> tuple[Indices, Indices, Indices]:
    """Distinct points: the first of each, which one each point is, how often each occurs."""
    _, first, kind, weight = np.unique(
        x, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return first, kind.reshape(-1), weight

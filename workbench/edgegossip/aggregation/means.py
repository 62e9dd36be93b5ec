"""Aggregated points: the mean of each subset."""

from __future__ import annotations

import numpy as np

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices

VALUES_AT_ONCE = 1 << 22


def subset_means(x: FloatArray, members: Indices, subsets: int) -> FloatArray:
    """Return the mean of the original features over each subset (Eq. 1), (M, d...).

    `members` is the subset of each point, (N,); none of the `subsets` is empty. Summed in double
    precision, some features at a time, so that no copy of the data is made.
    """
    from scipy.sparse import csr_array

    count, flat = len(x), x.reshape(len(x), -1)
    shape = (subsets, count)
    belongs = csr_array((np.ones(count), (members, np.arange(count))), shape=shape)
    sizes = np.bincount(members, minlength=subsets)[:, None]
    means = np.empty((subsets, flat.shape[1]), x.dtype)
    step = max(1, VALUES_AT_ONCE // count)
    for first in range(0, flat.shape[1], step):
        part = slice(first, first + step)
        means[:, part] = (belongs @ flat[:, part].astype(np.float64)) / sizes
    return means.reshape(subsets, *x.shape[1:])

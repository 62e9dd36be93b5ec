"""The eight combinations of reducing and dividing, by name (Han et al. 2021, Fig. 3)."""

from __future__ import annotations

from typing import NamedTuple

from workbench.edgegossip.aggregation.dividers import Divider, gaussian_mixture, kmeans, lsh
from workbench.edgegossip.aggregation.incremental_svd import incremental_svd
from workbench.edgegossip.aggregation.reducers import (
    Reducer,
    histogram,
    pca,
    simhash,
    single_svd,
    whole_svd,
)


class Technique(NamedTuple):
    """A way to find similar points: a reducer of dimensions, then a divider into subsets."""

    reduce: Reducer
    divide: Divider
    together: bool = False  # all points are divided at once, else class after class


TECHNIQUES = {
    "svd_kmeans": Technique(single_svd, kmeans, together=True),
    "incremental_svd_lsh": Technique(incremental_svd, lsh),
    "hash_kmeans": Technique(simhash, kmeans, together=True),
    "svd_gaussian_mixture": Technique(single_svd, gaussian_mixture, together=True),
    "pca_kmeans": Technique(pca, kmeans, together=True),
    "pca_lsh": Technique(pca, lsh),
    "whole_svd_lsh": Technique(whole_svd, lsh),
    "histogram_kmeans": Technique(histogram, kmeans, together=True),
}
"""The first three are those that the paper selects and evaluates further.

Buckets are made class by class, in the same O(d' N log N). Clusters are those of the whole set, as
Table 3 counts them; a `Technique` of one's own that divides class by class is as many times faster
as there are classes.
"""

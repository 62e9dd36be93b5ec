"""The combinations of reducing and dividing by name (Han et al. 2021, Fig. 3)."""

from __future__ import annotations

from typing import NamedTuple

from workbench.edgegossip.aggregation.dividers import Divider, gaussian_mixture, kmeans, lsh
from workbench.edgegossip.aggregation.incremental_svd import incremental_svd
from workbench.edgegossip.aggregation.reducers import (
    Reducer,
    histogram,
    pca,
    randomised_pca,
    randomised_svd,
    simhash,
    single_svd,
    whole_svd,
)


class Technique(NamedTuple):
    """How similar points are found: first in fewer dimensions, then in subsets."""

    reduce: Reducer
    divide: Divider
    together: bool = False  # all points are divided at once, else class after class


PAPER = {
    "svd_kmeans": Technique(single_svd, kmeans, together=True),
    "incremental_svd_lsh": Technique(incremental_svd, lsh),
    "hash_kmeans": Technique(simhash, kmeans, together=True),
    "svd_gaussian_mixture": Technique(single_svd, gaussian_mixture, together=True),
    "pca_kmeans": Technique(pca, kmeans, together=True),
    "pca_lsh": Technique(pca, lsh),
    "whole_svd_lsh": Technique(whole_svd, lsh),
    "histogram_kmeans": Technique(histogram, kmeans, together=True),
}
"""All eight of the paper; the first three are those that it selects and evaluates further.

Buckets are made class by class, in the same O(d' N log N); clusters of the whole set, which take
as many times as long as there are classes.
"""

FAST = "_fast"
_FASTER: dict[Reducer, Reducer] = {pca: randomised_pca, whole_svd: randomised_svd}


def _faster(slow: Technique) -> Technique:
    return Technique(_FASTER.get(slow.reduce, slow.reduce), slow.divide)


TECHNIQUES: dict[str, Technique] = PAPER | {
    name + FAST: _faster(slow) for name, slow in PAPER.items() if _faster(slow) != slow
}
"""The paper's, and their faster forms: randomised decompositions, one class after the other."""

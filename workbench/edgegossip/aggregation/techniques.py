"""The combinations of reducing and dividing by name (Han et al. 2021, Fig. 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from workbench.edgegossip.aggregation.aggregation import FloatArray
from workbench.edgegossip.aggregation.divider import Divider
from workbench.edgegossip.aggregation.gaussian_mixture import gaussian_mixture
from workbench.edgegossip.aggregation.histogram import histogram
from workbench.edgegossip.aggregation.incremental_svd import incremental_svd
from workbench.edgegossip.aggregation.kmeans import kmeans
from workbench.edgegossip.aggregation.lsh import lsh
from workbench.edgegossip.aggregation.pca import pca
from workbench.edgegossip.aggregation.simhash import simhash
from workbench.edgegossip.aggregation.single_svd import single_svd
from workbench.edgegossip.aggregation.whole_svd import whole_svd

Reducer = Callable[[FloatArray, float, int], FloatArray]
"""Points (N, d...), aggregation ratio, seed -> (N, d')."""


class Technique(NamedTuple):
    """How similar points are found: first in fewer dimensions, then in subsets."""

    reduce: Reducer
    divide: Divider


TECHNIQUES: dict[str, Technique] = {
    "svd_kmeans": Technique(single_svd, kmeans),
    "incremental_svd_lsh": Technique(incremental_svd, lsh),
    "hash_kmeans": Technique(simhash, kmeans),
    "svd_gaussian_mixture": Technique(single_svd, gaussian_mixture),
    "pca_kmeans": Technique(pca, kmeans),
    "pca_lsh": Technique(pca, lsh),
    "whole_svd_lsh": Technique(whole_svd, lsh),
    "histogram_kmeans": Technique(histogram, kmeans),
}
"""All eight; the first three are those that the paper selects and evaluates further."""

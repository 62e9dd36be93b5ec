"""Costs of aggregating: operations as the paper counts them, and seconds by these."""

from __future__ import annotations

import math

from workbench.edgegossip.aggregation.aggregation import check_ratio
from workbench.edgegossip.aggregation.dividers import ITERATIONS as KMEANS_ITERATIONS
from workbench.edgegossip.aggregation.incremental_svd import ITERATIONS as SVD_ITERATIONS
from workbench.edgegossip.aggregation.incremental_svd import VALUES_SHARE, dimensions
from workbench.edgegossip.aggregation.reducers import LENGTH, VALUES
from workbench.utils.checks import UserError, check_name

COUNTED = ("svd_kmeans", "incremental_svd_lsh", "hash_kmeans")
"""The techniques that the paper selects, and that Table 3 covers."""


def operations(
    technique: str,
    points: int,
    features: int,
    ratio: float = 10,
    classes: int = 10,
    *,
    kept: int | None = None,
) -> tuple[float, float]:
    """Return the operations of reducing and of dividing, up to a factor (Table 3).

    As they are run: k-means in d' + 1 dimensions, the class being one; buckets in d', for each of
    the `classes` on its own, which are of equal size.

    Deviation: the table writes d for the dimension in which points are divided; they have been
    reduced by then, so d' is meant.

    `technique` is one of `COUNTED`, since the table has no other; `points` and `features` are N and
    d; `kept` is d', the dimensions of reduced points (None: the technique's own).
    """
    check_name("technique of Table 3", technique, COUNTED)
    ratio = check_ratio(ratio)
    if min(points, features, classes) < 1:
        raise UserError(
            f"{points} points of {features} features in {classes} classes; there must be at least "
            "one of each"
        )
    if technique == "incremental_svd_lsh":
        kept = dimensions(features, ratio) if kept is None else kept
        learnt = kept * SVD_ITERATIONS * max(1.0, VALUES_SHARE * features) * points
        return learnt, kept * points * math.log2(max(1.0, points / classes))
    own, reduced = (
        (VALUES, points * features**1.5)
        if technique == "svd_kmeans"
        else (LENGTH, points * features)
    )
    kept = own if kept is None else kept
    return reduced, (kept + 1) * (points / ratio) * KMEANS_ITERATIONS * points


def generation_s(
    technique: str,
    points: float,
    features: int,
    ratio: float,
    operations_per_s: float,
    *,
    classes: int = 10,
) -> float:
    """Seconds of reducing and dividing: the operations of Table 3 over a rate."""
    counted = operations(technique, max(1, round(points)), features, ratio, classes)
    return sum(counted) / operations_per_s

"""Costs of aggregating: operations as the paper counts them, seconds measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from workbench.edgegossip.aggregation.aggregate import timed_aggregate
from workbench.edgegossip.aggregation.aggregation import check_ratio
from workbench.edgegossip.aggregation.dividers import ITERATIONS as KMEANS_ITERATIONS
from workbench.edgegossip.aggregation.incremental_svd import ITERATIONS as SVD_ITERATIONS
from workbench.edgegossip.aggregation.incremental_svd import VALUES_SHARE, dimensions
from workbench.edgegossip.aggregation.reducers import LENGTH, VALUES
from workbench.edgegossip.aggregation.techniques import FAST, TECHNIQUES
from workbench.errors import UserError
from workbench.names import check_name

if TYPE_CHECKING:
    import polars as pl

SELECTED = ("svd_kmeans", "incremental_svd_lsh", "hash_kmeans")
"""The techniques that the paper selects, and that Table 3 covers."""

COUNTED = (*SELECTED, *(name + FAST for name in SELECTED if name + FAST in TECHNIQUES))


def operations(
    technique: str, points: int, features: int, ratio: float = 10, classes: int = 10
) -> tuple[float, float]:
    """Return the operations of reducing and of dividing, up to a factor (Table 3).

    As they are run: k-means in d' + 1 dimensions, the class being one, where it divides all points
    together; in d' where each class is divided on its own.

    Deviation: the table writes d for the dimension in which points are divided; they have been
    reduced by then, so d' is meant.

    Parameters
    ----------
    technique
        One of `COUNTED`; the table has no other.
    points, features
        N and d.
    ratio
        Original points for each aggregated one.
    classes
        Of equal size; they count where each is divided on its own.

    Raises
    ------
    workbench.names.UnknownNameError
        The table does not have this technique.
    ValueError
        Less than one point, feature or class, or a ratio below 1.
    """
    check_name("technique of Table 3", technique, COUNTED)
    ratio = check_ratio(ratio)
    if min(points, features, classes) < 1:
        raise UserError(
            f"{points} points of {features} features in {classes} classes; there must be at least "
            "one of each"
        )
    together = TECHNIQUES[technique].together
    each = points if together else max(1.0, points / classes)  # that are divided at once
    if technique.startswith("incremental_svd"):
        kept = dimensions(features, ratio)
        learnt = kept * SVD_ITERATIONS * max(1.0, VALUES_SHARE * features) * points
        return learnt, kept * points * math.log2(each)
    kept, one = (VALUES, features**1.5) if technique.startswith("svd") else (LENGTH, features)
    return points * one, (kept + together) * (each / ratio) * KMEANS_ITERATIONS * points


def generation(
    x: ArrayLike,
    y: ArrayLike,
    techniques: Iterable[str] = SELECTED,
    ratios: Iterable[float] = (5, 10, 20),
    *,
    repeats: int = 1,
    seed: int = 0,
) -> pl.DataFrame:
    """Measure the seconds of each step for each technique and ratio (Figs. 3a and 7).

    Each repetition goes through all of them, so that a busy while does not hit one technique alone.
    A small aggregation beforehand loads late imports.

    ``technique``, ``ratio``, ``repeat``, ``aggregated`` (number of points made), ``reduce_s``,
    ``divide_s``, ``aggregate_s``, ``total_s``.

    Parameters
    ----------
    x, y, techniques, ratios, seed
        As for `aggregate`, each technique by name.
    repeats
        How often each is measured; a row for each.

    Raises
    ------
    ValueError
        No repetition; what `aggregate` refuses.
    """
    import numpy as np
    import polars as pl

    if repeats < 1:
        raise UserError(f"repeats is {repeats}; measure at least once")
    names, values, rows = list(techniques), [check_ratio(ratio) for ratio in ratios], []
    for name in names:
        timed_aggregate(np.arange(8.0).reshape(4, 2), [0, 0, 1, 1], name, 2, seed)
    for repeat in range(repeats):
        for name in names:
            for ratio in values:
                made, times = timed_aggregate(x, y, name, ratio, seed)
                steps = (times.reduce_s, times.divide_s, times.aggregate_s, times.total_s)
                rows.append((name, ratio, repeat, len(made), *steps))
    columns = {"technique": pl.String, "ratio": pl.Float64, "repeat": pl.Int64}
    seconds = ("reduce_s", "divide_s", "aggregate_s", "total_s")
    schema = {**columns, "aggregated": pl.Int64, **dict.fromkeys(seconds, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")

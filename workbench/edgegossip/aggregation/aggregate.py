"""The input data aggregator: reduce, divide, take means (Han et al. 2021, Sec. 3.2)."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.edgegossip.aggregation.aggregation import (
    Aggregation,
    FloatArray,
    Indices,
    check_ratio,
)
from workbench.edgegossip.aggregation.dividers import Divider
from workbench.edgegossip.aggregation.techniques import TECHNIQUES, Technique
from workbench.training.repeatable import derive
from workbench.utils.checks import UserError, check_whole, choose
from workbench.utils.rounding import in_proportion

SPACING = 10.0
"""Between neighbouring classes, over the largest distance of two points of one class."""

VALUES_AT_ONCE = 1 << 22


class AggregationTimes(NamedTuple):
    """Wall seconds of the three steps."""

    reduce_s: float
    divide_s: float
    aggregate_s: float


def aggregate(
    x: ArrayLike,
    y: ArrayLike,
    technique: str | Technique = "svd_kmeans",
    ratio: float = 10,
    seed: int = 0,
) -> Aggregation:
    """Group similar points of the same class and take the mean of each group.

    The points are reduced, then divided into ``N / ratio`` subsets (rounded down) in all, at least
    one for each class: by clusters of the whole set, or class by class, each into its share by its
    size. Every point is in exactly one subset, and a subset holds one class. Empty subsets, as of
    equal points, are dropped, so there may be fewer than asked for. Aggregated points are means of
    the original features (Eq. 1), not of the reduced ones.

    Parameters
    ----------
    x
        Points, (N, d...): vectors or images. Integers and half precision are taken as float32.
    y
        Their classes, (N,), whole numbers.
    technique
        A name in `TECHNIQUES`; or a `Technique` of a reducer and a divider of your own.
    ratio
        Original points for each aggregated one, from 1 to N.
    seed
        Of what reducer and divider draw. The same seed gives the same subsets.

    Raises
    ------
    ValueError
        No points, NaN or infinite features, not a class for each point, a ratio or seed out of
        range, no such technique, a reducer or divider without a row or a subset for each point.
    """
    return timed_aggregate(x, y, technique, ratio, seed)[0]


def timed_aggregate(
    x: ArrayLike,
    y: ArrayLike,
    technique: str | Technique = "svd_kmeans",
    ratio: float = 10,
    seed: int = 0,
) -> tuple[Aggregation, AggregationTimes]:
    """Aggregate as `aggregate` does, and time each step.

    In one thread: sums split among threads round differently from run to run.
    """
    from threadpoolctl import threadpool_limits

    how = _technique(technique)
    points, classes = _checked(x, y)
    ratio = check_ratio(ratio)
    seed = check_whole("seed", seed, 0)
    if ratio > len(points):
        raise UserError(
            f"ratio {ratio:g} asks for less than one aggregated point from {len(points)} points; "
            f"give 1 to {len(points)}"
        )
    with threadpool_limits(1):
        began_s = time.perf_counter()
        reduced = _reduced(how, points, ratio, seed)
        reduced_s = time.perf_counter()
        members, labels = _divided(how, reduced, classes, int(len(points) / ratio), seed)
        divided_s = time.perf_counter()
        means = subset_means(points, members, len(labels))
        ended_s = time.perf_counter()
    times = AggregationTimes(reduced_s - began_s, divided_s - reduced_s, ended_s - divided_s)
    return Aggregation(means, labels, members, ratio), times


def _technique(technique: object) -> Technique:
    if isinstance(technique, str):
        return choose("technique", technique, TECHNIQUES)
    if isinstance(technique, Technique):
        return technique
    raise UserError(
        f"technique is {technique!r}; give a name ({', '.join(TECHNIQUES)}), or a Technique"
    )


def _checked(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, Indices]:
    points, classes = np.asarray(x), np.asarray(y)
    if points.dtype.kind in "iub" or points.dtype == np.float16:
        points = points.astype(np.float32)
    if points.dtype.kind != "f" or points.ndim < 2 or not points.size:
        raise UserError(
            f"x is {points.dtype} of shape {points.shape}; it must hold numbers, a row of "
            "features or an image for each point, at least one point"
        )
    finite = np.isfinite(points.reshape(len(points), -1)).all(axis=1)
    if not finite.all():
        raise UserError(
            f"x holds NaN or infinite features in {np.count_nonzero(~finite)} of {len(points)} "
            f"points, first in point {int(np.argmin(finite))}"
        )
    if classes.dtype.kind not in "iu" or classes.shape != (len(points),):
        raise UserError(
            f"y is {classes.dtype} of shape {classes.shape}; it must be whole numbers, "
            f"one class for each of the {len(points)} points"
        )
    return points, classes.astype(np.int64)


def _reduced(technique: Technique, points: FloatArray, ratio: float, seed: int) -> NDArray[Any]:
    reduced = np.asarray(technique.reduce(points, ratio, _seed(seed, 0)))
    if reduced.ndim != 2 or len(reduced) != len(points) or not np.isfinite(reduced).all():
        raise UserError(
            f"the reducer made an array of shape {reduced.shape} of {len(points)} points; "
            "it must give a row of finite numbers for each"
        )
    return reduced


def _divided(
    how: Technique, reduced: FloatArray, classes: Indices, subsets: int, seed: int
) -> tuple[Indices, Indices]:
    """Subset of each point, class after class, and class of each subset."""
    names, sizes = np.unique(classes, return_counts=True)
    subset, parts = np.zeros(len(classes), np.int64), max(subsets, len(names))
    if how.together:
        subset = _subsets(how.divide, apart(reduced, classes), parts, _seed(seed, 1))
    else:
        each = in_proportion(parts, sizes.tolist(), least=1)
        for number, (name, share) in enumerate(zip(names, each, strict=True)):
            own = classes == name
            subset[own] = _subsets(how.divide, reduced[own], share, _seed(seed, 1, number))
    # A subset of several classes is one of each.
    pairs, members = np.unique(np.stack([classes, subset]), axis=1, return_inverse=True)
    if how.together and pairs.shape[1] > parts:  # a small class has begun no cluster of its own
        return _divided(how._replace(together=False), reduced, classes, subsets, seed)
    return members.reshape(-1).astype(np.int64), pairs[0]


def _subsets(divide: Divider, points: FloatArray, parts: int, seed: int) -> Indices:
    subset = np.asarray(divide(points, parts, seed))
    if subset.shape != (len(points),) or subset.dtype.kind not in "iu":
        raise UserError(
            f"the divider gave {subset.dtype} of shape {subset.shape} for {len(points)} points; "
            "it must give the number of a subset for each"
        )
    return subset


def _seed(seed: int, *purpose: int) -> int:
    return derive(seed, *purpose) % 2**32  # as scikit-learn wants it


def apart(reduced: FloatArray, classes: Indices) -> NDArray[np.float64]:
    """Return the reduced points (N, d') with a column more, their class; (N, d' + 1).

    Deviation: the paper clusters the whole set, and each of its subsets holds one class; it does
    not say how. Here classes are much further from each other than any two points within one, so
    that clusters of the whole set are of one class.
    """
    _, number = np.unique(classes, return_inverse=True)
    widest = float(np.linalg.norm(np.ptp(reduced, axis=0))) or 1.0
    return np.column_stack([reduced, SPACING * widest * number.reshape(-1)])


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

"""EdgeGossip from the paper in clear loops: no reuse of the package's code, no speed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
INFINITY = float("inf")


def aggregated_points(x: Sequence[Sequence[float]], members: Sequence[int]) -> list[list[float]]:
    """Eq. 1, feature by feature."""
    points = []
    for subset in range(max(members) + 1):
        own = [x[k] for k in range(len(x)) if members[k] == subset]
        point = []
        for j in range(len(x[0])):
            total = 0.0
            for one in own:
                total += one[j]
            point.append(total / len(own))
        points.append(point)
    return points


class HaltedError(Exception):
    """Line 11 of Algorithm 1."""


def algorithm_1(
    points: Sequence[int], throughput: Sequence[float], threshold: float, failed_share: float
) -> dict[int, float]:
    """The paper's Algorithm 1, line by line: the ratio of each platform that has not failed."""
    platforms = len(points)
    seconds, failed = [0.0] * platforms, [0] * platforms
    for i in range(platforms):
        if throughput[i] < threshold:
            failed[i] = 1
            seconds[i] = INFINITY
        else:
            failed[i] = 0
            seconds[i] = points[i] / throughput[i]
        if sum(failed) / platforms > failed_share:
            raise HaltedError
    order = sorted(range(platforms), key=lambda i: seconds[i])
    ratios = {}
    for rank in range(platforms - sum(failed)):
        relative = seconds[order[rank]] / seconds[order[0]]
        ratios[order[rank]] = 1 / relative
    return ratios


def algorithm_2(
    subsets: Sequence[Sequence[int]], effects: Sequence[float], ratio: float, batch_size: int
) -> list[list[int]]:
    """The paper's Algorithm 2, with `<=` as printed, but stopped when no subset is left."""
    order = sorted(range(len(subsets)), key=lambda i: (-effects[i], i))
    ranked = [subsets[i] for i in order]
    points = sum(len(one) for one in subsets)
    processed, i, batches = 0, 0, []
    while processed <= points * ratio and i < len(ranked):
        batch: list[int] = []
        while i < len(ranked):
            batch = batch + list(ranked[i])
            i += 1
            if len(batch) >= batch_size:
                break
        batches.append(batch)
        processed += len(batch)
    return batches


def singular_values(matrix: Sequence[Sequence[float]], kept: int) -> list[float]:
    """Square roots of the eigenvalues of A Aᵀ, largest first."""
    rows = [
        [sum(a * b for a, b in zip(one, other, strict=True)) for other in matrix] for one in matrix
    ]
    squares = sorted(np.linalg.eigvalsh(np.array(rows)).tolist(), reverse=True)
    return [max(0.0, square) ** 0.5 for square in squares][:kept]


def hebbian(
    values: Array,
    chosen: Sequence[Sequence[Array]],
    rate: float,
    shrinking: float,
    start: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Singular vectors by the generalised Hebbian algorithm, one value after the other.

    Of the values less the mean of each feature, in the range of 8-bit pixels.

    ``chosen[k][e]``: features that iteration e of dimension k learns from, a row for each point.
    """
    count, features = values.shape
    u, v = start[0].copy(), start[1].copy()
    span = max(float(one) for one in values.ravel()) - min(float(one) for one in values.ravel())
    means = [sum(float(values[i, j]) for i in range(count)) / count for j in range(features)]
    for k, iterations in enumerate(chosen):
        for table in iterations:
            for i in range(count):
                for j in table[i]:
                    guess = 0.0
                    for dimension in range(k + 1):
                        guess += u[i, dimension] * v[j, dimension]
                    error = (values[i, j] - means[j]) / span * 255 - guess
                    before = u[i, k]
                    u[i, k] += rate * (error * v[j, k] - shrinking * u[i, k])
                    v[j, k] += rate * (error * before - shrinking * v[j, k])
    return u, v


def histogram(values: Sequence[float], low: float, high: float, bins: int) -> list[float]:
    """Share of the values in each of so many bins of equal width, the last one closed."""
    counts = [0] * bins
    for value in values:
        place = int((value - low) / (high - low) * bins) if high > low else bins - 1
        counts[min(place, bins - 1)] += 1
    return [count / len(values) for count in counts]


def inclusion(weights: Sequence[float], drawn: int) -> list[float]:
    """Chance of each to be among `drawn` draws without replacement, by going through all."""
    if drawn == 0:
        return [0.0] * len(weights)
    total = sum(weights)
    chances = [0.0] * len(weights)
    for first, weight in enumerate(weights):
        if weight == 0:
            continue
        left = [0.0 if at == first else other for at, other in enumerate(weights)]
        rest = inclusion(left, drawn - 1)
        for at in range(len(weights)):
            chances[at] += weight / total * (1.0 if at == first else rest[at])
    return chances

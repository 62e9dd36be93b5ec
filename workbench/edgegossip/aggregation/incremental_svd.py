"""Incremental SVD: singular vectors learnt one after the other from a few values at a time.

The generalised Hebbian algorithm (Gorrell, EACL 2006), with the parameters of Han et al. 2021, Sec.
4.3. A value x_ij is approximated by the sum over dimensions of u_i v_j; a step moves u_i and v_j of
the dimension being learnt along the error of one value.

Deviation: numbers that the paper does not explain are read as in the well-known use of this
algorithm on ratings: the constant 0.015 shrinks both factors at each step. Features are centred, as
for PCA, and scaled to the range of 8-bit pixels: to values up to 1 the rate of 0.001 is too small
to learn from 20 iterations, whatever else is chosen. Both factors start at random, of about 1,
which is small beside what is learnt. An iteration draws 1 % of each point's values with
replacement. Points are learnt from in blocks, those of a block at the same time.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray
from workbench.training.repeatable import derive

ITERATIONS = 20
VALUES_SHARE = 0.01
LEARNING_RATE = 0.001
SHRINKING = 0.015
START = 1.0
RANGE = 255.0
"""Difference of the largest value and the smallest: pixels of 8 bits."""


def incremental_svd(x: FloatArray, ratio: float = 10, seed: int = 0) -> NDArray[np.float64]:
    """Return each point's factors u_i, (N, d'); `ratio` decides d'.

    They need many features: 1 % of 64 is a single value an iteration, too few to tell.
    """
    flat = x.reshape(len(x), -1)
    features = flat.shape[1]
    rng = np.random.default_rng(derive(seed))
    drawn = max(1, round(VALUES_SHARE * features))
    # In blocks of as many points as features a feature occurs about once, so that simultaneous
    # steps are nearly consecutive ones.
    points, _ = factors(flat, dimensions(features, ratio), drawn, rng, block=max(64, features))
    return points


def dimensions(features: int, ratio: float) -> int:
    """Return d' = log2(0.1 d / aggregation ratio), rounded, at least 1."""
    return max(1, round(math.log2(0.1 * features / ratio)))


def factors(
    values: FloatArray,
    dimensions: int,
    drawn: int,
    rng: np.random.Generator,
    *,
    block: int,
    iterations: int = ITERATIONS,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Learn u (N, d') and v (d, d') from `drawn` of the `values` (N, d) of each point an iteration.

    Points of a `block` are learnt from at the same time; 1 is the plain algorithm. `rng` draws (N,
    drawn) features for each dimension and iteration. u v^T approximates the values `scaled`.
    """
    count, features = values.shape
    values = scaled(values)
    u, v = (START * rng.standard_normal((size, dimensions)) for size in (count, features))
    for last in range(dimensions):
        for _ in range(iterations):
            chosen = rng.integers(0, features, (count, drawn))
            for first in range(0, count, block):
                rows = slice(first, first + block)
                row = np.arange(first, min(first + block, count))
                for at in chosen[rows].T:
                    guess = np.einsum("ij,ij->i", u[rows, : last + 1], v[at, : last + 1])
                    error = values[row, at] - guess
                    own, other = u[rows, last].copy(), v[at, last]
                    u[rows, last] += LEARNING_RATE * (error * other - SHRINKING * own)
                    np.add.at(v[:, last], at, LEARNING_RATE * (error * own - SHRINKING * other))
    return u, v


def scaled(values: FloatArray) -> NDArray[np.float64]:
    """Values in the range of 8-bit pixels, each feature less its mean."""
    step = RANGE / (float(np.ptp(values)) or 1.0)
    return np.asarray((values - values.mean(axis=0, dtype=np.float64)) * step)

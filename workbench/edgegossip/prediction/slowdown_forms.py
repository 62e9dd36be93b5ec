"""Forms of the regression RG(U): what contention is turned into before it is weighted.

Every feature is 0 without contention and never falls as contention rises. With weights that are
not negative, RG(U) = 1 + weights . features is therefore 1 at U = 0, at least 1, and rises with
each resource: as the paper demands, and without cutting off at 1, which would leave the regression
fitting what is cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST_LEFT = 0.01
"""Of the time of all cores; with less, a task's slowdown would be without bound."""


def linear(u: Array, cores: int) -> Array:
    """U itself, (N, 3)."""
    return u


def products(u: Array, cores: int) -> Array:
    """U, its squares and its pairwise products, (N, 9)."""
    pairs = combinations_with_replacement(range(u.shape[1]), 2)
    return np.column_stack([u, *(u[:, a] * u[:, b] for a, b in pairs)])


def share(u: Array, cores: int) -> Array:
    """U, and how much longer a task of one thread takes with what is left of a core, (N, 4).

    As long as a core is idle, that is nothing. When all are busy, one thread gets
    ``cores (1 - U^core)`` of a core and takes the inverse of that as long.
    """
    left = cores * np.maximum(1 - u[:, 0], LEAST_LEFT)
    return np.column_stack([u, np.maximum(0, 1 / left - 1)])


def share_products(u: Array, cores: int) -> Array:
    """Both: `products` and the last feature of `share`, (N, 10)."""
    return np.column_stack([products(u, cores), share(u, cores)[:, -1]])


Form = Callable[[Array, int], Array]
"""Contention (N, 3), network and disk as shares of their scale, and cores -> features (N, F)."""

FORMS: dict[str, Form] = {
    "linear": linear,
    "products": products,
    "share": share,
    "share_products": share_products,
}

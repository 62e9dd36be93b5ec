"""Interface of the dividers: points into subsets of similar ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices
from workbench.errors import UserError

Divider = Callable[[FloatArray, int, int], Indices]
"""Reduced points, (n, d'); subsets asked for, 1 to n; seed, below 2^32 -> subset of each, (n,).

Subsets are int64, from 0 to one below what was asked for; some may stay empty. Asked for none, or
for more than there are points, it raises `ValueError`.
"""


def check_parts(parts: int, points: int) -> None:
    """Refuse to divide points into more subsets than there are, or into none."""
    if not 1 <= parts <= points:
        raise UserError(
            f"{points} points cannot be divided into {parts} subsets; ask for 1 to {points}"
        )


def fitted_labels(model: Any, x: FloatArray) -> Indices:
    """Fit one of scikit-learn's models and return the part of each point, (n,).

    Equal points and stopping after the paper's iterations are expected, so convergence warnings are
    off.
    """
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels: Indices = model.fit_predict(x).astype(np.int64)
    return labels

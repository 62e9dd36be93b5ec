"""Classes apart, so that a division of all points is one of each class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices

SPACING = 10.0
"""Between neighbouring classes, over the largest distance of two points of one class."""


def apart(reduced: FloatArray, classes: Indices) -> NDArray[np.float64]:
    """Return the reduced points (N, d') with a column more, their class; (N, d' + 1).

    Deviation: the paper clusters the whole set, and each of its subsets holds one class; it does
    not say how. Here classes are much further from each other than any two points within one, so
    that clusters of the whole set are of one class.
    """
    _, number = np.unique(classes, return_inverse=True)
    widest = float(np.linalg.norm(np.ptp(reduced, axis=0))) or 1.0
    return np.column_stack([reduced, SPACING * widest * number.reshape(-1)])

"""Sums and means over some axes or all: ones, or equal shares."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from workbench.olpb.algorithms.jacobians.sparse import from_entries
from workbench.olpb.algorithms.tape import Call


def reduction(call: Call, read: int) -> csr_array:
    """`sum` and `mean`."""
    given, made = call.reads[read], call.results[0]
    axes = call.argument(1, "dim")
    axes = list(range(given.dim())) if axes is None or axes == [] else np.atleast_1d(axes)
    gone = {int(axis) % max(given.dim(), 1) for axis in axes}
    kept = [1 if axis in gone else length for axis, length in enumerate(given.shape)]
    columns = np.arange(made.numel()).reshape(kept)
    share = made.numel() / given.numel() if call.name == "mean" else 1.0
    return from_entries(
        np.arange(given.numel()),
        np.broadcast_to(columns, given.shape).reshape(-1),
        share,
        (given.numel(), made.numel()),
    )

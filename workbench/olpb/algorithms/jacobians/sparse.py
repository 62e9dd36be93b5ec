"""Transposed Jacobians as sparse matrices: a row per number read, a column per number made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from workbench.errors import UserError

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_ENTRIES = 200_000_000
"""Of an operator's Jacobian: 2.4 gigabytes."""


def check_entries(name: str, count: int) -> None:
    """Refuse a Jacobian that does not fit into memory."""
    if count > MOST_ENTRIES:
        raise UserError(
            f"the Jacobian of {name} has {count:,} entries; at most {MOST_ENTRIES:,} are held: "
            "give a smaller batch or smaller inputs"
        )


def numbers(tensor: Tensor) -> Numbers:
    """A tensor's numbers as doubles."""
    found: Numbers = tensor.detach().double().numpy()
    return found


def from_entries(
    rows: Indices, columns: Indices, entries: Numbers | float, shape: tuple[int, int]
) -> csr_array:
    """Matrix of these entries; those at the same place are added."""
    data = np.broadcast_to(np.asarray(entries, np.float64), rows.shape)
    return coo_array((data.ravel(), (rows.ravel(), columns.ravel())), shape=shape).tocsr()

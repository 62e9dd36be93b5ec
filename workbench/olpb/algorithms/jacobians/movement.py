"""Operators that copy, join, pad or pick elements: a matrix of zeros and ones."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array

from workbench.errors import UserError
from workbench.olpb.algorithms.jacobians.sparse import from_entries, numbers
from workbench.olpb.algorithms.tape import Call


def movement(call: Call, read: int) -> csr_array:
    """Send the numbers of the elements through the operator, and see where they arrive."""
    given = call.reads[read]
    each = torch.arange(1, given.numel() + 1, dtype=torch.float64).reshape(given.shape)
    if given.numel() >= 2**24:
        raise UserError(f"{call.name} reads {given.numel()} numbers; at most 2^24 can be followed")
    with torch.no_grad():
        numbered, zeroed = (
            numbers(call.again({read: one.to(given.dtype)})[0]).reshape(-1)
            for one in (each, torch.zeros_like(each))
        )
    columns = np.flatnonzero((numbered != zeroed) & np.isfinite(numbered) & (zeroed == 0))
    rows = numbered[columns].astype(np.int64) - 1
    return from_entries(rows, columns, 1.0, (given.numel(), numbered.size))

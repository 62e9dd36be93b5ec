"""Any other operator: a vector-Jacobian product for each number it makes. Right, and slow."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array

from workbench.olpb.algorithms.jacobians.sparse import check_entries, numbers
from workbench.olpb.algorithms.tape import Call


def generic(call: Call, read: int, result: int = 0) -> csr_array:
    """Column by column, by local autograd."""
    made, given = call.results[result], call.reads[read]
    check_entries(call.name, given.numel() * made.numel())
    columns = np.zeros((given.numel(), made.numel()))
    for one in range(made.numel()):
        unit = torch.zeros(made.numel(), dtype=made.dtype)
        unit[one] = 1
        found = call.backward({result: unit.reshape(made.shape)}, {read: given})
        columns[:, one] = numbers(found[read]).reshape(-1)
    return csr_array(columns)

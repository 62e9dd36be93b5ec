"""Transposed Jacobians of operators, sparse, by the names that PyTorch gives operators.

Convolutions, poolings and what only moves elements have a closed form (`FORMS`); all others come
from vector-Jacobian products (`products`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from scipy.sparse import csr_array

from workbench.errors import UserError
from workbench.olpb.algorithms.jacobians.products import by_products
from workbench.olpb.algorithms.jacobians.sparse import from_entries, numbers
from workbench.olpb.algorithms.jacobians.windows import (
    adaptive_pooling,
    average_pooling,
    convolution,
    max_pooling,
)
from workbench.olpb.algorithms.tape import Call

Form = Callable[[Call, int], csr_array | None]
"""Of a call's first result by one of the tensors that it reads; None where it knows no form."""

_MOVEMENTS = (
    "as_strided_scatter cat clone constant_pad_nd copy flip gather index_select repeat roll "
    "select_scatter slice_scatter stack zero"
)


def movement(call: Call, read: int) -> csr_array:
    """Copies, joins, pads or picks: elements are sent through by number, to see where they go."""
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


FORMS: Mapping[str, Form] = {
    **dict.fromkeys(_MOVEMENTS.split(), movement),
    "_adaptive_avg_pool2d": adaptive_pooling,
    "_adaptive_avg_pool3d": adaptive_pooling,
    "adaptive_max_pool2d": max_pooling,
    "adaptive_max_pool3d": max_pooling,
    "avg_pool2d": average_pooling,
    "avg_pool3d": average_pooling,
    "convolution": convolution,
    "max_pool2d_with_indices": max_pooling,
    "max_pool3d_with_indices": max_pooling,
}


def transposed_jacobian(call: Call, read: int, result: int = 0) -> csr_array:
    """dL/dx = J^T dL/dy of one of a call's results by one of the tensors that it reads.

    Shape: numbers of the read tensor by numbers of the result, both row by row, the batch with
    them. An operator that writes in place has the form of the one that does not.
    """
    form = FORMS.get(call.name.removesuffix("_")) if result == 0 else None
    found = form(call, read) if form is not None else None
    return by_products(call, read, result) if found is None else found

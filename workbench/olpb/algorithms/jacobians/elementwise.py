"""Elementwise operators: a diagonal, summed where broadcasting spread what was read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from workbench.olpb.algorithms.jacobians.sparse import from_entries, numbers, spread
from workbench.olpb.algorithms.tape import Call

SLOPES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda made: (made > 0).double(),
    "tanh": lambda made: 1 - made.square(),
    "sigmoid": lambda made: made * (1 - made),
    "exp": lambda made: made,
}
"""Derivatives that are known from the result."""


def elementwise(call: Call, read: int) -> csr_array:
    """Any operator that PyTorch calls pointwise; its slopes are the gradient of its sum."""
    made, given = call.results[0], call.reads[read]
    slope = SLOPES.get(call.name.removesuffix("_"))
    if slope is not None and made.shape == given.shape:
        slopes = slope(made.double())
    else:
        alone = given.expand(made.shape).clone(memory_format=torch.contiguous_format)
        slopes = call.backward({0: torch.ones_like(made)}, {read: alone})[read]
    rows, columns = spread(given, made), np.arange(made.numel())
    return from_entries(rows, columns, numbers(slopes).reshape(-1), (given.numel(), made.numel()))

"""Matrix products: Kronecker products of one factor with the identity."""

from __future__ import annotations

import numpy as np
from scipy.sparse import block_diag, csr_array, eye_array, kron

from workbench.olpb.algorithms.jacobians.sparse import (
    Numbers,
    check_entries,
    from_entries,
    numbers,
    spread,
)
from workbench.olpb.algorithms.tape import Call


def mm(call: Call, read: int) -> csr_array:
    """C = A B."""
    return _of_factor(call.name, numbers(call.reads[0]), numbers(call.reads[1]), left=read == 0)


def addmm(call: Call, read: int) -> csr_array:
    """C = beta M + alpha A B, with M broadcast."""
    if read == 0:
        given, made = call.reads[0], call.results[0]
        columns = np.arange(made.numel())
        scale = float(call.argument(3, "beta", 1))
        return from_entries(spread(given, made), columns, scale, (given.numel(), made.numel()))
    left, right = numbers(call.reads[1]), numbers(call.reads[2])
    return csr_array(
        _of_factor(call.name, left, right, left=read == 1) * call.argument(4, "alpha", 1)
    )


def bmm(call: Call, read: int) -> csr_array:
    """A product for each of a batch."""
    pairs = zip(numbers(call.reads[0]), numbers(call.reads[1]), strict=True)
    return csr_array(block_diag([_of_factor(call.name, *pair, left=read == 0) for pair in pairs]))


def _of_factor(name: str, a: Numbers, b: Numbers, *, left: bool) -> csr_array:
    """Of C = A B by rows: dA = dC B^T, and dB = A^T dC."""
    check_entries(name, len(a) * b.size if left else a.size * b.shape[1])
    if left:
        return csr_array(kron(eye_array(len(a)), b))
    return csr_array(kron(a.T, eye_array(b.shape[1])))

"""Jacobians by vector-Jacobian products: one product for columns that share no number read.

Most operators fall apart into blocks that know nothing of each other: an elementwise one into
single numbers, a softmax into the vectors along its axis, a product of matrices into the rows of
the left one or the columns of the right one, a batch normalisation into channels. One product then
gives a column of every block at once, and several such products are made in one call (vmap). What
has no blocks here is one block: a product for each number that it makes.
"""

from __future__ import annotations

from math import prod

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from workbench.olpb.algorithms.jacobians.sparse import (
    Indices,
    check_entries,
    from_entries,
    numbers,
)
from workbench.olpb.algorithms.tape import Call

AT_ONCE = 2**24
"""Numbers of the seeds of products that are made in one call."""
POINTWISE = ("_prelu_kernel", "leaky_relu", "rrelu_with_noise")
"""Operators that PyTorch does not call so, though they are."""


def by_products(call: Call, read: int, result: int = 0) -> csr_array:
    """The transposed Jacobian of a result by a tensor that is read; see `transposed_jacobian`."""
    made, given = call.results[result], call.reads[read]
    whose = np.arange(given.numel())  # by number of the leaf, the number read that it stands for
    leaf, blocks = given, _blocks(call, read) if result == 0 else None
    if blocks is None and result == 0 and _is_pointwise(call, read):
        # Broadcasting would join blocks: spread before, numbers are read once each.
        whose = np.broadcast_to(whose.reshape(given.shape), made.shape).reshape(-1)
        leaf = given.expand(made.shape).clone(memory_format=torch.contiguous_format)
        blocks = (np.arange(made.numel())[:, None],) * 2
    rows, columns = blocks or (whose[None], np.arange(made.numel())[None])
    check_entries(call.name, rows.size * columns.shape[1])
    entries = np.empty((*rows.shape, columns.shape[1]))
    at_once = max(1, AT_ONCE // max(leaf.numel(), made.numel(), 1))
    for first in range(0, columns.shape[1], at_once):
        part = columns[:, first : first + at_once]
        seeds = torch.zeros(part.shape[1], made.numel(), dtype=made.dtype)
        seeds[torch.arange(part.shape[1]), torch.from_numpy(part)] = 1
        gradients = {result: seeds.reshape(-1, *made.shape)}
        found = numbers(call.backward(gradients, {read: leaf}, batched=True)[read])
        found = np.broadcast_to(found, (part.shape[1], *leaf.shape)).reshape(part.shape[1], -1)
        entries[:, :, first : first + at_once] = np.moveaxis(found[:, rows], 0, -1)
    at = np.broadcast_to(whose[rows][:, :, None], entries.shape)
    to = np.broadcast_to(columns[:, None, :], entries.shape)
    jacobian = from_entries(at, to, entries, (given.numel(), made.numel()))
    jacobian.eliminate_zeros()
    return jacobian


def _is_pointwise(call: Call, read: int) -> bool:
    """Whether it makes each number from those at the same place, as broadcasting has it."""
    if torch.Tag.pointwise in call.operator.function.tags or call.name in POINTWISE:
        return True
    if call.name == "native_batch_norm":  # with stored statistics
        return read == 0 and not call.args[5]
    unreduced = call.name == "mse_loss" and call.results[0].shape == call.reads[read].shape
    return unreduced or (call.name == "addmm" and read == 0)


def _blocks(call: Call, read: int) -> tuple[Indices, Indices] | None:
    """By block, numbers of what is read, and the numbers made that depend on no others."""
    given, made = call.reads[read], call.results[0]
    name, args = call.name, call.args
    if name in ("mm", "bmm") or (name == "addmm" and read):
        axis = -1 if read == (name == "addmm") else -2
        return _along(given, axis), _along(made, axis)
    if name in ("_softmax", "_log_softmax"):
        return _along(given, args[1]), _along(made, args[1])
    if name in ("sum", "mean"):
        axes = call.argument(1, "dim")
        axes = list(range(given.dim())) if axes is None or axes == [] else np.atleast_1d(axes)
        rows = _numbered(given)
        gone = tuple(int(axis) % max(given.dim(), 1) for axis in axes)
        rows = np.moveaxis(rows, gone, range(-len(gone), 0)) if given.dim() else rows
        return rows.reshape(max(made.numel(), 1), -1), np.arange(made.numel())[:, None]
    if name in ("nll_loss_forward", "nll_loss2d_forward") and made.dim() and read == 0:
        return _along(given, 1 if given.dim() > 1 else 0), np.arange(made.numel())[:, None]
    if read or name not in ("native_batch_norm", "native_layer_norm", "native_group_norm"):
        return None
    if name == "native_batch_norm":
        rows = _along(given, 1).T
    elif name == "native_layer_norm":
        rows = _numbered(given).reshape(-1, prod(args[1]))
    else:
        rows = _numbered(given).reshape(args[3] * args[6], -1)
    return None if name == "native_batch_norm" and not args[5] else (rows, rows)


def _numbered(tensor: Tensor) -> Indices:
    return np.arange(tensor.numel()).reshape(tuple(tensor.shape))


def _along(tensor: Tensor, axis: int) -> Indices:
    """Numbers of a tensor's elements, a row for each of its vectors along an axis."""
    each = np.atleast_1d(_numbered(tensor))
    return np.moveaxis(each, axis, -1).reshape(-1, each.shape[axis])

"""Transposed Jacobians of operators as sparse matrices, by the names that PyTorch gives operators.

They have a row per number read and a column per number made. Convolutions, poolings and what only
moves elements have a closed form (`FORMS`); all others come from vector-Jacobian products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import block_diag, coo_array, csr_array, eye_array, kron
from torch import Tensor

from workbench.olpb.algorithms.tape import Call
from workbench.utils.checks import UserError

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]

Form = Callable[[Call, int], csr_array | None]
"""Of a call's first result by one of the tensors that it reads; None where it knows no form."""

MOST_ENTRIES = 200_000_000
"""Of an operator's Jacobian: 2.4 gigabytes."""
AT_ONCE = 2**24
"""Numbers of the seeds of products that are made in one call."""
POINTWISE = ("_prelu_kernel", "leaky_relu", "rrelu_with_noise")
"""Operators that PyTorch does not call so, though they are."""
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
            numbers(call.again({read: sent.to(given.dtype)})[0]).reshape(-1)
            for sent in (each, torch.zeros_like(each))
        )
    columns = np.flatnonzero((numbered != zeroed) & np.isfinite(numbered) & (zeroed == 0))
    rows = numbered[columns].astype(np.int64) - 1
    return from_entries(rows, columns, 1.0, (given.numel(), numbered.size))


def convolution(call: Call, read: int) -> csr_array | None:
    """Of the image: for each tap of the kernel, channels times where the tap falls on each axis.

    Of any dimension, stride, padding, dilation and groups, and of transposed ones.
    """
    if read != 0:
        return None
    image, weight, _, strides, paddings, dilations, transposed, _, groups = call.args
    axes = range(image.dim() - 2)
    strides, paddings, dilations = (
        np.broadcast_to(given, len(axes)).tolist() for given in (strides, paddings, dilations)
    )
    lengths = list(zip(image.shape[2:], call.results[0].shape[2:], strict=True))
    pixels = min(image[0, 0].numel(), call.results[0][0, 0].numel())
    check_entries(call.name, len(image) * weight.numel() * pixels)
    parts = []
    for tap in product(*(range(length) for length in weight.shape[2:])):
        falls = []
        for axis in axes:
            coarse, fine = reversed(lengths[axis]) if not transposed else lengths[axis]
            first = tap[axis] * dilations[axis] - paddings[axis]
            fall = _falls(fine, coarse, first, strides[axis])
            falls.append(fall.T if transposed else fall)
        channels = _channels(weight[(slice(None), slice(None), *tap)], groups, transposed)
        parts.append(reduce(lambda a, b: kron(a, b, format="coo"), [channels, *falls]))
    entries, rows, columns = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "row", "col")
    )
    of_sample = coo_array((entries, (rows, columns)), shape=parts[0].shape)
    return csr_array(kron(eye_array(len(image)), of_sample, format="csr"))


def _falls(fine: int, coarse: int, first: int, stride: int) -> coo_array:
    """Where a tap falls: one for each pair of a place on the fine grid and one on the coarse."""
    places = first + stride * np.arange(coarse)
    there = np.flatnonzero((places >= 0) & (places < fine))
    return coo_array((np.ones(there.size), (places[there], there)), shape=(fine, coarse))


def _channels(tap: Tensor, groups: int, transposed: bool) -> coo_array:
    """From each channel read to each made: blocks along the diagonal, one a group."""
    blocks = np.split(
        numbers(tap), groups
    )  # made, read in a group; of a transposed one the reverse
    return coo_array(block_diag([block if transposed else block.T for block in blocks]))


def max_pooling(call: Call, read: int) -> csr_array:
    """Its second result tells where in its plane each maximum was."""
    given, (made, where) = call.reads[0], call.results
    axes = 3 if "3d" in call.name else 2
    plane = int(np.prod(given.shape[-axes:]))
    planes = np.arange(given.numel() // plane).reshape(-1, 1)
    rows = planes * plane + where.numpy().reshape(len(planes), -1)
    return from_entries(
        rows.reshape(-1), np.arange(made.numel()), 1.0, (given.numel(), made.numel())
    )


def average_pooling(call: Call, read: int) -> csr_array:
    """Windows of a kernel; what divides their sums is a product over the axes."""
    given, made = call.reads[0], call.results[0]
    kernel = list(call.args[1])
    axes = len(kernel)
    stride = np.broadcast_to(call.argument(2, "stride", []) or kernel, axes).tolist()
    padding = np.broadcast_to(call.argument(3, "padding", [0]), axes).tolist()
    counts_padding = call.argument(5, "count_include_pad", True)
    divisor = call.argument(6, "divisor_override")
    lengths, windows = zip(given.shape[-axes:], made.shape[-axes:], strict=True), []
    for (length, out), size, step, pad in zip(lengths, kernel, stride, padding, strict=True):
        starts = np.arange(out) * step - pad
        ends = np.minimum(starts + size, length + pad)
        inside = np.minimum(ends, length) - np.maximum(starts, 0)
        counts = ends - starts if counts_padding else inside
        weights = np.ones(out) if divisor else 1 / counts
        windows.append(_windows(length, starts, ends, weights))
    return csr_array(_of_planes(given.numel(), windows) * (1 / divisor if divisor else 1))


def adaptive_pooling(call: Call, read: int) -> csr_array:
    """Windows that share an axis out: from floor(i L / K) to ceil((i + 1) L / K)."""
    given, made = call.reads[0], call.results[0]
    axes = len(call.args[1])
    windows = []
    for length, out in zip(given.shape[-axes:], made.shape[-axes:], strict=True):
        each = np.arange(out)
        starts, ends = each * length // out, -(-(each + 1) * length // out)
        windows.append(_windows(length, starts, ends, 1 / (ends - starts)))
    return _of_planes(given.numel(), windows)


def _windows(length: int, starts: Indices, ends: Indices, weights: Numbers) -> csr_array:
    places = np.arange(length)[:, None]
    inside = (places >= starts) & (places < ends)
    return csr_array(inside * weights)


def _of_planes(count: int, windows: Sequence[csr_array]) -> csr_array:
    window = reduce(lambda a, b: kron(a, b, format="csr"), windows)
    return csr_array(kron(eye_array(count // window.shape[0]), window, format="csr"))


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
    jacobian = form(call, read) if form is not None else None
    return by_products(call, read, result) if jacobian is None else jacobian


def by_products(call: Call, read: int, result: int = 0) -> csr_array:
    """The transposed Jacobian of a result by a tensor that is read, column by column.

    One product gives the columns that share no number read. Most operators fall apart into blocks
    that know nothing of each other: an elementwise one into single numbers, a softmax into the
    vectors along its axis, a product of matrices into the rows of the left one or the columns of
    the right one, a batch normalisation into channels. One product then gives a column of every
    block at once, and several such products are made in one call (vmap). What has no blocks here is
    one block: a product for each number that it makes.
    """
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
        columns_of = numbers(call.backward(gradients, {read: leaf}, batched=True)[read])
        columns_of = np.broadcast_to(columns_of, (part.shape[1], *leaf.shape)).reshape(
            part.shape[1], -1
        )
        entries[:, :, first : first + at_once] = np.moveaxis(columns_of[:, rows], 0, -1)
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


def check_entries(name: str, count: int) -> None:
    """Refuse a Jacobian that does not fit into memory."""
    if count > MOST_ENTRIES:
        raise UserError(
            f"the Jacobian of {name} has {count:,} entries; at most {MOST_ENTRIES:,} are held: "
            "give a smaller batch or smaller inputs"
        )


def numbers(tensor: Tensor) -> Numbers:
    """A tensor's numbers as doubles."""
    return np.asarray(tensor.detach().double().numpy())


def from_entries(
    rows: Indices, columns: Indices, entries: Numbers | float, shape: tuple[int, int]
) -> csr_array:
    """Matrix of these entries; those at the same place are added."""
    data = np.broadcast_to(np.asarray(entries, np.float64), rows.shape)
    return coo_array((data.ravel(), (rows.ravel(), columns.ravel())), shape=shape).tocsr()

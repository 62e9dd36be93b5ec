"""Convolutions and poolings: what falls into which window, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np
from scipy.sparse import block_diag, coo_array, csr_array, eye_array, kron
from torch import Tensor

from workbench.olpb.algorithms.jacobians.sparse import (
    Indices,
    Numbers,
    check_entries,
    from_entries,
    numbers,
)
from workbench.olpb.algorithms.tape import Call


def convolution(call: Call, read: int) -> csr_array | None:
    """Of the image: for each tap of the kernel, channels times where the tap falls on each axis.

    Of any dimension, stride, padding, dilation and groups, and of transposed ones.
    """
    if read != 0:
        return None
    image, weight, _, strides, paddings, dilations, transposed, _, groups = call.args
    axes = range(image.dim() - 2)
    strides, paddings, dilations = (_each(one, len(axes)) for one in (strides, paddings, dilations))
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


def _each(given: list[int], axes: int) -> list[int]:
    return list(given) * axes if len(given) == 1 else list(given)


def _falls(fine: int, coarse: int, first: int, stride: int) -> coo_array:
    """Where a tap falls: one for each pair of a place on the fine grid and one on the coarse."""
    places = first + stride * np.arange(coarse)
    there = np.flatnonzero((places >= 0) & (places < fine))
    return coo_array((np.ones(there.size), (places[there], there)), shape=(fine, coarse))


def _channels(tap: Tensor, groups: int, transposed: bool) -> coo_array:
    """From each channel read to each made: blocks along the diagonal, one a group."""
    if not transposed:  # tap: made, read in a group
        blocks: list[Numbers] = [part.T for part in np.split(numbers(tap), groups)]
    else:  # tap: read, made in a group
        blocks = np.split(numbers(tap), groups)
    return coo_array(block_diag(blocks))


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
    kernel_and = [call.argument(2, "stride", []) or kernel, call.argument(3, "padding", [0])]
    stride, padding = (list(one) * (axes if len(one) == 1 else 1) for one in kernel_and)
    counts_padding = call.argument(5, "count_include_pad", True)
    divisor = call.argument(6, "divisor_override")
    windows = []
    for length, out, size, step, pad in zip(
        given.shape[-axes:], made.shape[-axes:], kernel, stride, padding, strict=True
    ):
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

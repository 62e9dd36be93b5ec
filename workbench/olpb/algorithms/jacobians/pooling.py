"""Poolings: where each maximum came from, and windows of equal weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from scipy.sparse import csr_array, eye_array, kron

from workbench.olpb.algorithms.jacobians.sparse import Indices, from_entries
from workbench.olpb.algorithms.tape import Call


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


def _windows(
    length: int, starts: Indices, ends: Indices, weights: np.typing.NDArray[np.float64]
) -> csr_array:
    places = np.arange(length)[:, None]
    inside = (places >= starts) & (places < ends)
    return csr_array(inside * weights)


def _of_planes(count: int, windows: Sequence[csr_array]) -> csr_array:
    window = reduce(lambda a, b: kron(a, b, format="csr"), windows)
    return csr_array(kron(eye_array(count // window.shape[0]), window, format="csr"))

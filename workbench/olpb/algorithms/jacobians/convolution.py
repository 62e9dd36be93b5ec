"""Convolutions of any dimension, stride, padding, dilation and groups, and transposed ones."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
from scipy.sparse import block_diag, coo_array, csr_array, eye_array, kron
from torch import Tensor

from workbench.olpb.algorithms.jacobians.sparse import Numbers, check_entries, numbers
from workbench.olpb.algorithms.tape import Call


def convolution(call: Call, read: int) -> csr_array | None:
    """Of the image: for each tap of the kernel, channels times where the tap falls on each axis."""
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

"""Normalisations: a dense block for what shares a mean, or a diagonal with stored statistics."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, diags_array

from workbench.olpb.algorithms.jacobians.sparse import (
    Indices,
    Numbers,
    check_entries,
    from_blocks,
    numbers,
    rows_along,
)
from workbench.olpb.algorithms.tape import Call


def batch_norm(call: Call, read: int) -> csr_array | None:
    """Over samples and pixels of each channel."""
    if read != 0:
        return None
    image, weight, _, _, running_var, training, _, eps = call.args
    index = rows_along(image, 1).T  # a row a channel
    gains = np.ones(len(index)) if weight is None else numbers(weight)
    if not training:
        slopes = np.empty(image.numel())
        slopes[index] = (gains / np.sqrt(numbers(running_var) + eps))[:, None]
        return csr_array(diags_array(slopes))
    return _normalised(numbers(image), index, np.broadcast_to(gains[:, None], index.shape), eps)


def layer_norm(call: Call, read: int) -> csr_array | None:
    """Over the last axes."""
    if read != 0:
        return None
    given, shape, weight, _, eps = call.args
    index = np.arange(given.numel()).reshape(-1, int(np.prod(shape)))
    gains = np.ones(index.shape[1]) if weight is None else numbers(weight).reshape(-1)
    return _normalised(numbers(given), index, np.broadcast_to(gains, index.shape), eps)


def group_norm(call: Call, read: int) -> csr_array | None:
    """Over the pixels of a group of channels."""
    if read != 0:
        return None
    image, weight, _, samples, channels, pixels, groups, eps = call.args
    index = np.arange(image.numel()).reshape(samples * groups, -1)
    gains = np.ones(channels) if weight is None else numbers(weight)
    each = np.tile(np.repeat(gains, pixels), samples).reshape(index.shape)
    return _normalised(numbers(image), index, each, eps)


def _normalised(given: Numbers, index: Indices, gains: Numbers, eps: float) -> csr_array:
    """With m numbers, z of mean 0 and variance 1: (I - (1 1^T + z z^T) / m) diag(gain) / sigma."""
    rows = given.reshape(-1)[index]
    sigma = np.sqrt(rows.var(axis=1, keepdims=True) + eps)
    z = (rows - rows.mean(axis=1, keepdims=True)) / sigma
    m = index.shape[1]
    check_entries("a normalisation", index.size * m)
    blocks = np.eye(m) - (1 + z[:, :, None] * z[:, None, :]) / m
    return from_blocks(index, blocks * gains[:, None, :] / sigma[:, :, None])

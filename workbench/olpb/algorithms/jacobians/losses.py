"""Softmax and what losses are made of."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from workbench.olpb.algorithms.jacobians.sparse import (
    from_blocks,
    from_entries,
    numbers,
    rows_along,
)
from workbench.olpb.algorithms.tape import Call

MEAN, SUM = 1, 2


def log_softmax(call: Call, read: int) -> csr_array:
    """Along an axis: dx = dy - p sum(dy)."""
    made = call.results[0]
    index = rows_along(made, call.args[1])
    p = np.exp(numbers(made).reshape(-1)[index])
    return from_blocks(index, np.eye(index.shape[1]) - p[:, :, None] * np.ones_like(p)[:, None, :])


def softmax(call: Call, read: int) -> csr_array:
    """Along an axis: dx = p (dy - p dy)."""
    made = call.results[0]
    index = rows_along(made, call.args[1])
    p = numbers(made).reshape(-1)[index]
    return from_blocks(index, np.eye(index.shape[1]) * p[:, :, None] - p[:, :, None] * p[:, None])


def nll_loss(call: Call, read: int) -> csr_array | None:
    """One entry for each sample, at its class; classes may be weighted, or one ignored."""
    if read != 0:
        return None
    scores, target, weight, reduction, ignored = call.args
    classes = scores.shape[1] if scores.dim() > 1 else scores.shape[0]
    wanted = target.numpy().reshape(-1)
    pixels = scores[0, 0].numel() if scores.dim() > 1 else 1
    counts = wanted != ignored
    inside = np.where(counts, wanted, 0)
    weights = counts * (np.ones(classes) if weight is None else numbers(weight))[inside]
    sample, pixel = np.divmod(np.arange(wanted.size), pixels)
    rows = (sample * classes + inside) * pixels + pixel
    columns = np.zeros_like(rows) if reduction in (MEAN, SUM) else np.arange(rows.size)
    scale = 1 / weights.sum() if reduction == MEAN else 1.0
    return from_entries(rows, columns, -weights * scale, (scores.numel(), call.results[0].numel()))


def mse_loss(call: Call, read: int) -> csr_array | None:
    """Squared differences of what has the same shape."""
    found, target = call.reads
    if found.shape != target.shape:
        return None
    slopes = 2 * numbers(found - target).reshape(-1) * (1 if read == 0 else -1)
    reduction = call.argument(2, "reduction", MEAN)
    each = np.arange(slopes.size)
    columns = np.zeros_like(each) if reduction in (MEAN, SUM) else each
    scale = 1 / slopes.size if reduction == MEAN else 1.0
    return from_entries(each, columns, slopes * scale, (slopes.size, call.results[0].numel()))

"""Synchronous training of a linear classifier on several workers, in NumPy loops (Eqs. 4 and 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
Indices = NDArray[np.int64]
Select = Callable[[Vector], NDArray[np.bool_]]
CLASSES = 10


def gradient(weights: Vector, x: NDArray[Any], y: NDArray[Any]) -> tuple[float, Vector]:
    """Mean cross entropy of a batch, and its gradient; weights are (classes, inputs), biases."""
    inputs = x.reshape(len(x), -1).astype(np.float64)
    matrix = weights[:-CLASSES].reshape(CLASSES, -1).astype(np.float64)
    logits = inputs @ matrix.T + weights[-CLASSES:]
    logits -= logits.max(1, keepdims=True)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    loss = -np.log(shares[np.arange(len(y)), y]).mean()
    shares[np.arange(len(y)), y] -= 1
    shares /= len(y)
    flat = np.concatenate([(shares.T @ inputs).reshape(-1), shares.sum(0)])
    return float(loss), flat.astype(np.float32)


def synchronous(
    first: Sequence[Vector],
    batches: Sequence[Sequence[Indices]],
    x: NDArray[Any],
    y: NDArray[Any],
    *,
    rate: float,
    weight: Callable[[int, int, Sequence[int]], float],
    selected: Select | None = None,
) -> tuple[list[Vector], list[list[float]]]:
    """All workers' weights at the end, and their losses.

    `batches` are by iteration and worker. `weight` of worker j's gradient at worker k, from all
    batch sizes. Peers get the values that `selected` says, the worker itself all.
    """
    models = [vector.copy() for vector in first]
    losses: list[list[float]] = []
    for batch_of in batches:
        found = [gradient(w, x[one], y[one]) for w, one in zip(models, batch_of, strict=True)]
        losses.append([loss for loss, _ in found])
        sizes = [len(one) for one in batch_of]
        for k in range(len(models)):
            order = [k] + [j for j in range(len(models)) if j != k]
            for j in order:
                values = found[j][1]
                if selected is not None and j != k:
                    values = np.where(selected(values), values, np.float32(0))
                models[k] = models[k] - np.float32(rate * weight(j, k, sizes)) * values
    return models, losses


def alone(
    first: Vector, batches: Sequence[Indices], x: NDArray[Any], y: NDArray[Any], rate: float
) -> Vector:
    """One machine's gradient descent."""
    weights = first.copy()
    for batch in batches:
        weights = weights - np.float32(rate) * gradient(weights, x[batch], y[batch])[1]
    return weights

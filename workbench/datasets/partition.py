"""A data set's training samples distributed over nodes.

Each function takes labels and returns a shard per node: ascending indices, int64. Every sample is
in exactly one shard, no shard is empty, and the same seed gives the same shards.

>>> from workbench import datasets
>>> from workbench.datasets import partition
>>> digits = datasets.load("digits")
>>> [len(shard) for shard in partition.by_size(digits.y_train, [0.25] * 4, seed=0)]
[361, 361, 360, 360]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.utils.checks import UserError, check_number, check_whole
from workbench.utils.rounding import in_proportion

Shards = tuple[NDArray[np.int64], ...]

PARTITION = 11
"""Purpose of a stream of random numbers; see `workbench.training.repeatable`."""


def by_size(labels: ArrayLike, shares: Sequence[float], *, seed: int) -> Shards:
    """Distribute samples at random, to each node its share: the same mix of classes on average.

    Parameters
    ----------
    labels
        Of the samples, a row for each; they play no part but by their number.
    shares
        Of each node, above 0, to any scale: ``[0.25] * 4``, ``[1, 1, 2]``. What rounding leaves
        over goes to the largest remainders, of equal ones to the first.
    """
    count, weights = len(np.atleast_1d(np.asarray(labels))), np.asarray(shares, dtype=float)
    if weights.ndim != 1 or not weights.size or not (np.isfinite(weights) & (weights > 0)).all():
        raise UserError(f"shares are {shares!r}; give each node one above 0, such as [1, 1, 2]")
    weights = weights / weights.max()  # so that the sum is finite
    sizes = in_proportion(count, weights.tolist())
    if 0 in sizes:
        node = sizes.index(0)
        raise UserError(
            f"node {node} would get none of {count} samples: its share is "
            f"{weights[node] / weights.sum():.3g}. Give it more, or use fewer nodes"
        )
    order = _generator(seed).permutation(count)
    return tuple(np.sort(part) for part in np.split(order, np.cumsum(sizes)[:-1]))


def by_class(labels: ArrayLike, nodes: int, *, classes_per_node: int = 2, seed: int) -> Shards:
    """Give each node samples of few classes (McMahan et al. 2017, Sec. 3).

    Samples are sorted by class, in random order within one, and cut into
    ``nodes * classes_per_node`` pieces of equal size, give or take one; each node gets
    `classes_per_node` of them at random. Where cuts do not meet the ends of classes, a piece holds
    samples of several classes.
    """
    classes_per_node = check_whole("classes_per_node", classes_per_node, 1)
    checked = _checked(labels, nodes)
    pieces = nodes * classes_per_node
    if len(checked) < pieces:
        raise UserError(
            f"{len(checked)} samples do not make {pieces} pieces for {nodes} nodes with "
            f"{classes_per_node} classes each; use fewer nodes or more samples"
        )
    rng = _generator(seed)
    order = rng.permutation(len(checked))
    by_label = np.array_split(order[np.argsort(checked[order], kind="stable")], pieces)
    dealt = rng.permutation(pieces).reshape(nodes, classes_per_node)
    return tuple(np.sort(np.concatenate([by_label[piece] for piece in own])) for own in dealt)


def dirichlet(labels: ArrayLike, nodes: int, alpha: float, *, seed: int) -> Shards:
    """Split every class by shares drawn from a Dirichlet distribution (Hsu et al. 2019, Sec. 3).

    `alpha` is above 0: small for nodes that hold few classes each, large for equal mixes.

    Deviation: the shares of a class are drawn over nodes, not those of a node over classes, so
    that every sample finds its place whatever the nodes' sizes. A node that gets nothing takes a
    sample from whichever node has most.
    """
    if not 0 < check_number("alpha", alpha) < math.inf:
        raise UserError(f"alpha is {alpha}; it must be above 0 and finite")
    checked = _checked(labels, nodes)
    rng = _generator(seed)
    owner = np.empty(len(checked), dtype=np.int64)
    for label in np.unique(checked):
        own = rng.permutation(np.flatnonzero(checked == label))
        # Beyond these bounds sums overflow or round to 0; within, shares are the same to a sample.
        shares = rng.dirichlet(np.full(nodes, np.clip(alpha, 1e-300, 1e15)))
        bounds = np.rint(np.cumsum(shares) * len(own)).astype(np.int64)
        holders = rng.permutation(nodes)  # in any order, so that rounding favours no node
        owner[own] = holders[np.searchsorted(bounds, np.arange(len(own)), side="right")]
    sizes = np.bincount(owner, minlength=nodes)
    for node in np.flatnonzero(sizes == 0):
        richest = int(sizes.argmax())
        owner[np.flatnonzero(owner == richest)[0]] = node
        sizes[richest] -= 1
        sizes[node] += 1
    return tuple(np.flatnonzero(owner == node) for node in range(nodes))


def _generator(seed: int) -> np.random.Generator:
    stream = np.random.SeedSequence(check_whole("seed", seed, 0), spawn_key=(PARTITION,))
    return np.random.default_rng(stream)


def _checked(labels: ArrayLike, nodes: int) -> NDArray[np.int64]:
    values = np.asarray(labels)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise UserError(
            f"labels are {values.dtype} of shape {values.shape}; give one whole number a sample, "
            "such as dataset.y_train"
        )
    if len(values) < check_whole("nodes", nodes, 1):
        raise UserError(
            f"{nodes} nodes cannot share {len(values)} samples; each needs at least one. "
            "Use fewer nodes or more samples"
        )
    return values.astype(np.int64)

"""Accuracy-aware training: the subsets of largest effect first (Han et al. 2021, Alg. 2).

The effect of a subset is the loss of its aggregated point under the present weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from workbench.edgegossip.aggregation.aggregation import Aggregation, Indices
from workbench.edgegossip.algorithms.effects import checked_effects, quota
from workbench.utils.checks import UserError, check_whole


def accuracy_aware(
    aggregation: Aggregation, effects: ArrayLike, ratio: float, batch_size: int, seed: int = 0
) -> list[Indices]:
    """Subsets by the loss of their aggregated point, largest first; a `Strategy`'s `select`."""
    order = ranked(checked_effects(effects, len(aggregation)))
    return selected(aggregation, order, ratio, batch_size)


def ranked(effects: ArrayLike) -> Indices:
    """Return the numbers of the subsets in descending order of effect (line 2), (M,).

    `effects` are the losses of the aggregated points, (M,); equal ones stay in order.
    """
    return np.argsort(-checked_effects(effects), kind="stable").astype(np.int64)


def selected(
    aggregation: Aggregation, order: ArrayLike, ratio: float, batch_size: int
) -> list[Indices]:
    """Return the batches of an epoch: whole subsets in order until enough is processed.

    Batches are indices of original points, int64; no point is in two. Subsets are added to a batch
    until it has at least `batch_size` points; the last one has fewer where the subsets run out.

    Deviation: line 6 goes on while no more than ``|X| r`` points are processed. Met exactly, as
    always at a ratio of 1, that asks for one more batch. Here it goes on while fewer are. A ratio
    of 0, that of a failed platform, gives no batch.

    Parameters
    ----------
    aggregation
        The platform's data, ``|X|`` points in M subsets.
    order
        Every subset once, as by `ranked`.
    ratio
        r: share of the points to be processed, 0 to 1.
    batch_size
        b: least number of points in a batch.
    """
    subsets = np.asarray(order)
    if not np.array_equal(np.sort(subsets), np.arange(len(aggregation))):
        raise UserError(
            f"order must name each of the {len(aggregation)} subsets once; "
            f"got {subsets.dtype} of shape {subsets.shape}"
        )
    needed, size = quota(len(aggregation.members), ratio), check_whole("batch_size", batch_size, 1)
    batches: list[Indices] = []
    batch: list[Indices] = []
    processed = filled = 0
    for number in subsets.tolist():
        if processed >= needed:
            return batches
        batch.append(aggregation.subset(number))
        filled += len(batch[-1])
        if filled >= size:
            batches.append(np.concatenate(batch))
            processed += filled
            batch, filled = [], 0
    if batch:
        batches.append(np.concatenate(batch))
    return batches

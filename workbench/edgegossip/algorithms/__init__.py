"""Strategies that choose what a platform learns from in an epoch, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from workbench.edgegossip.aggregation.aggregation import Aggregation, Indices
from workbench.edgegossip.aggregation.techniques import TECHNIQUES
from workbench.edgegossip.algorithms.accuracy_aware import accuracy_aware, selected
from workbench.edgegossip.algorithms.effects import in_batches, quota
from workbench.edgegossip.algorithms.failures import POLICIES
from workbench.edgegossip.algorithms.importance import importance

Effects = Literal["aggregated", "points", "none"]
Select = Callable[[Aggregation, ArrayLike, float, int, int], list[Indices]]


@dataclass(frozen=True)
class Strategy:
    """A strategy to choose the batches of an epoch, and what it needs.

    Attributes
    ----------
    select
        ``select(aggregation, effects, ratio, batch_size, seed)`` -> batches of indices of original
        points, none twice; at least `ratio` of all points, where there are as many.
    effects
        Losses that `effects` are, the cost of selecting in each epoch: of the M aggregated points,
        of the N original points, or none, and then `effects` is ignored.
    aggregates
        Whether it needs aggregated data.
    """

    select: Select
    effects: Effects
    aggregates: bool


def random_subsets(
    aggregation: Aggregation, effects: ArrayLike, ratio: float, batch_size: int, seed: int = 0
) -> list[Indices]:
    """Subsets in random order: what accuracy-aware training is without its ranking."""
    order = np.random.default_rng(seed).permutation(len(aggregation))
    return selected(aggregation, order, ratio, batch_size)


def random_points(
    aggregation: Aggregation, effects: ArrayLike, ratio: float, batch_size: int, seed: int = 0
) -> list[Indices]:
    """Points in random order, each as likely: plain training on a part of the data."""
    count = len(aggregation.members)
    order = np.random.default_rng(seed).permutation(count)[: quota(count, ratio)]
    return in_batches(order.astype(np.int64), batch_size)


STRATEGIES: dict[str, Strategy] = {
    "accuracy_aware": Strategy(accuracy_aware, "aggregated", aggregates=True),
    "importance": Strategy(importance, "points", aggregates=False),
    "random_subsets": Strategy(random_subsets, "none", aggregates=True),
    "random_points": Strategy(random_points, "none", aggregates=False),
}

ALGORITHMS: dict[str, Mapping[str, object]] = {
    "strategies, which choose what an epoch learns from": STRATEGIES,
    "techniques of aggregation": TECHNIQUES,
    "policies, when too many platforms fail": POLICIES,
}
"""All registries of this system by what they hold."""

"""Intervals and margins by naive loops, each corpus counting alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Logarithms = Mapping[str, Mapping[str, Sequence[float]]]
"""Corpus -> model -> logarithms of measured over predicted seconds."""


def least(values: Sequence[tuple[float, float]], share: float) -> float:
    """The least value that a share of the weights does not exceed; values with their weights."""
    whole, sum_so_far = sum(weight for _, weight in values), 0.0
    for value, weight in sorted(values):
        sum_so_far += weight
        if sum_so_far >= share * whole - 1e-9:
            return value
    return max(values)[0]


def interval(logarithms: Logarithms, level: float) -> tuple[float, float]:
    """Lowest and highest ratio: as much is left out below as above, of these rows and another."""
    weighted = []
    for models in logarithms.values():
        rows = [value for model in models.values() for value in model]
        weighted += [(value, 1 / len(rows)) for value in rows]
    count = len(weighted)
    share = (1 + level) / 2 * (count + 1) / count
    highest = least(weighted, share)
    lowest = -least([(-value, weight) for value, weight in weighted], share)
    return math.exp(lowest), math.exp(highest)


def margin(logarithms: Logarithms, level: float) -> float:
    """How far apart two predictions are of which a share `level` of all pairs would be in order.

    Of each pair of rows, in both orders: the longer one is predicted to take `apart` times as long;
    it was measured to take longer if the errors make up for no more than that.
    """
    weighted = []
    for models in logarithms.values():
        pairs = [
            a - b
            for model in models.values()
            for at, a in enumerate(model)
            for other, b in enumerate(model)
            if at != other
        ]
        weighted += [(pair, 1 / len(pairs)) for pair in pairs]
    for apart, _ in sorted(weighted):
        in_order = sum(weight for pair, weight in weighted if pair <= apart)
        if in_order >= level * sum(weight for _, weight in weighted) - 1e-9:
            return math.exp(apart)
    raise AssertionError

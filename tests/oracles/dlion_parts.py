"""Parts of gradients and batch sizes in loops straight from the paper (Hong & Chandra 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


def cheapest_bytes(selected: Sequence[bool], item_bytes: int) -> int:
    """Bytes of the selected values of a variable: all, with a bitmap, or with 4-byte positions."""
    count = 0
    for one in selected:
        if one:
            count += 1
    if not count:
        return 0
    whole = len(selected) * item_bytes
    bitmap = count * item_bytes + math.ceil(len(selected) / 8)
    positions = count * (item_bytes + 4)
    return min(whole, bitmap, positions)


def max_n(values: Sequence[float], n: Fraction) -> list[bool]:
    """Sec. 3.3: values within N % of the largest, exactly."""
    largest = Fraction(0)
    for value in values:
        largest = max(largest, abs(Fraction(value)))
    return [abs(Fraction(value)) >= (1 - n / 100) * largest for value in values]


def added(
    weights: Sequence[float], values: Sequence[float], selected: Sequence[bool], scale: float
) -> list[float]:
    """Weights plus the selected values times a scale."""
    result = []
    for weight, value, one in zip(weights, values, selected, strict=True):
        result.append(weight + scale * value if one else weight)
    return result


def global_batches(
    first: int,
    samples: int,
    iterations: int,
    *,
    add: int,
    factor: float,
    every: int,
    warm_up: int,
    warm_up_most: int,
    speed_up_most: int,
) -> list[tuple[int, int]]:
    """Size of each iteration, and epochs that are over before it; every and warm_up in samples."""
    size, learnt, found = first, 0, []
    for _ in range(iterations):
        found.append((size, learnt // samples))
        due = 0
        for _ in range(size):
            learnt += 1
            if learnt % every == 0:
                due = learnt
        if 0 < due <= warm_up:
            size = max(size, min(size + add, warm_up_most))
        elif due:
            size = max(size, min(math.floor(size * factor), speed_up_most))
    return found


def exact_shares(batch: int, power: Sequence[float]) -> list[Fraction]:
    """Eq. 5 without rounding."""
    total = sum(map(Fraction, power), Fraction(0))
    return [batch * Fraction(one) / total for one in power]

"""Whole numbers in proportion to weights."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def in_proportion(total: int, weights: Sequence[float], least: int = 0) -> list[int]:
    """Share `total` out in whole numbers, in proportion to weights above 0, at least `least` each.

    Exact shares are rounded down; what is left goes to the largest remainders, of equal ones to the
    first. Where `least` is more than some exact shares, those furthest above theirs give up what is
    too much, of equal ones the last of the largest. `total` is at least `least` for each.

    >>> in_proportion(10, [1, 1, 1]), in_proportion(10, [98, 1, 1], least=1)
    ([4, 3, 3], [8, 1, 1])
    """
    fractions = [Fraction(weight) for weight in weights]  # equal remainders are equal
    whole = sum(fractions)
    exact = [total * fraction / whole for fraction in fractions]
    counts = [max(least, int(share)) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda at: (counts[at] - exact[at], at))
    left = total - sum(counts)
    for at in by_remainder[: max(left, 0)]:
        counts[at] += 1
    while sum(counts) > total:
        largest = max(
            (at for at in range(len(counts)) if counts[at] > least),
            key=lambda at: (counts[at] - exact[at], counts[at], at),
        )
        counts[largest] -= 1
    return counts

"""Whole numbers in proportion: they sum to the total, and none is a whole one off its share."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.utils.rounding import in_proportion


@pytest.mark.parametrize(
    ("total", "weights", "least", "expected"),
    [
        (10, [50, 50], 0, [5, 5]),
        (4, [3, 3, 3], 0, [2, 1, 1]),  # of equal remainders the first
        (189, [5.0, 1.0], 0, [158, 31]),  # 157.5 and 31.5
        (10, [98, 1, 1], 1, [8, 1, 1]),  # the large one makes room for one of each
        (10, [98, 1, 1], 0, [10, 0, 0]),
        (3, [5, 5, 5], 1, [1, 1, 1]),
    ],
)
def test_by_hand(total: int, weights: list[float], least: int, expected: list[int]) -> None:
    assert in_proportion(total, weights, least) == expected


@given(
    weights=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9),
    least=st.integers(0, 2),
    more=st.integers(0, 100),
)
def test_sum_and_distance_from_the_exact_share(weights: list[float], least: int, more: int) -> None:
    total = least * len(weights) + more
    found = in_proportion(total, weights, least)
    assert sum(found) == total
    whole = sum(map(Fraction, weights))
    for count, weight in zip(found, map(Fraction, weights), strict=True):
        assert least <= count < max(Fraction(least), total * weight / whole) + 1

"""Shares of a server's interface, by hand."""

from __future__ import annotations

import math

from workbench.comparison.methods.star import fair_bps


def test_whoever_needs_less_leaves_the_rest_to_the_others() -> None:
    assert fair_bps([1, 10, 10], 9) == [1, 4, 4]
    assert fair_bps([1, 2], 9) == [1, 2]
    assert fair_bps([math.inf, 1], math.inf) == [math.inf, 1]
    assert fair_bps([math.inf, 1], 4) == [3, 1]
    assert fair_bps([], 1) == []

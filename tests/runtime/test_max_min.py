from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.runtime import progressive_filling
from workbench.runtime.coupled_share import max_min_rates, max_min_rates_of_many

Problem = tuple[list[float], list[list[int]], list[float]]


def of_many(caps: list[float], crossed: list[list[int]], capacities: list[float]) -> list[float]:
    """The same problem in arrays, with an interface of infinite capacity in front."""
    ends = np.array([[*(end + 1 for end in through), 0][:2] for through in crossed], np.intp)
    rates: list[float] = max_min_rates_of_many(
        np.array(caps), ends.reshape(-1, 2).T, np.array([math.inf, *capacities])
    ).tolist()
    return rates


both = pytest.mark.parametrize("rates_of", [max_min_rates, of_many])
Solver = Callable[[list[float], list[list[int]], list[float]], list[float]]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Transfers with a cap each, through one or two interfaces of small whole capacities."""
    capacities = draw(st.lists(st.integers(0, 12).map(float), min_size=1, max_size=5))
    through = st.lists(st.integers(0, len(capacities) - 1), min_size=1, max_size=2, unique=True)
    crossed = draw(st.lists(through, max_size=8))
    caps = draw(
        st.lists(st.integers(1, 9).map(float), min_size=len(crossed), max_size=len(crossed))
    )
    return caps, crossed, capacities


@both
def test_by_hand(rates_of: Solver) -> None:
    # Two share interface 0 (10), one of them also crosses interface 1 (4) with a third.
    assert rates_of([math.inf] * 3, [[0], [0, 1], [1]], [10, 4]) == [8, 2, 2]
    assert rates_of([1, math.inf, math.inf], [[0], [0], [0]], [10]) == [1, 4.5, 4.5]
    assert rates_of([], [], [10]) == []
    assert rates_of([3], [[0]], [0]) == [0]


@both
@given(problem=problems())
def test_equals_progressive_filling(rates_of: Solver, problem: Problem) -> None:
    assert rates_of(*problem) == pytest.approx(
        [float(rate) for rate in progressive_filling(*problem)], rel=1e-12, abs=1e-12
    )

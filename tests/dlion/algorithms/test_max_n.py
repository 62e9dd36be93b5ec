"""Max N against its formula, and the largest N that a link carries against trying all."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dlion.gradients import VALUES, gradient, gradients, links
from tests.oracles import dlion_parts as oracle
from tests.refusals import refusals
from workbench.dlion.algorithms.max_n import LEAST_N, STEPS, MaxN, Ranks, max_n, per_link
from workbench.dlion.gradient import Gradient
from workbench.utils.checks import UserError

GRID = st.sampled_from([0.0, 0.85, 1.0, 5.0, 10.0, 42.0, 50.0, 90.0, 99.0, 100.0])


@given(st.lists(VALUES, max_size=30), GRID, st.sampled_from([np.float32, np.float64]))
def test_is_the_formula(values: list[float], n: float, kind: type) -> None:
    """Values on a grid of tenths of the largest: at N = 10, 50 and 90 some are on the border."""
    expected = oracle.max_n(values, Fraction(n))
    assert max_n(np.array(values, kind), n).tolist() == expected


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1, 3, 7])
def test_whole_percents_of_a_scale_of_a_hundred(kind: type, scale: int) -> None:
    """1 - N/100 is rarely a float, and still the borders belong to what is sent."""
    values: np.ndarray[Any, Any] = np.arange(101, dtype=kind) * scale
    one = gradient(values, kind=kind)
    for n in range(101):
        expected = [at >= 100 - n for at in range(101)]
        assert max_n(values, n).tolist() == expected
        assert Ranks(one).part(n).values == one.part(np.array(expected)).values


def test_examples_of_the_paper() -> None:
    values = np.array([1.0, -0.995, 0.98, 0.0])
    assert max_n(values, 1).tolist() == [True, True, False, False]
    assert max_n(values, 100).all()
    assert max_n(np.zeros(3), 0).all()  # all are as large as the largest
    assert max_n(np.array([]), 5).tolist() == []


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=40),
    st.floats(0, 100),
    st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_a_training_selects_the_same(values: list[float], n: float, kind: type) -> None:
    """Of any values, infinite ones and none included, and any N."""
    with np.errstate(over="ignore"):
        one = gradient(values, kind=kind)
    expected = one.part(max_n(one.values, n))
    part = Ranks(one).part(n)
    assert part.size_bytes == expected.size_bytes
    assert [piece.values.tobytes() for piece in part.pieces] == [
        piece.values.tobytes() for piece in expected.pieces
    ]


@settings(max_examples=15)
@given(gradients())
def test_bytes_of_every_n_are_what_is_sent(one: Gradient) -> None:
    ranks = Ranks(one)
    sizes = ranks.bytes_by_step
    assert (np.diff(sizes) >= 0).all()
    for n in (0.0, 0.01, 0.85, 1.0, 9.99, 10.0, 33.33, 50.0, 89.99, 90.0, 99.99, 100.0):
        assert ranks.bytes_by_step[round(n * STEPS / 100)] == ranks.part(n).size_bytes
    assert ranks.part(100).size_bytes == one.whole.size_bytes == one.values.nbytes


@settings(max_examples=30)
@given(st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=60), st.integers(0, 300))
def test_largest_n_is_the_largest_that_fits(values: list[float], budget_bytes: int) -> None:
    ranks = Ranks(gradient(values))
    fits = [step for step in range(STEPS + 1) if ranks.bytes_by_step[step] <= budget_bytes]
    found = ranks.largest_n(budget_bytes)
    assert found == max(LEAST_N, 100 * max(fits, default=-1) / STEPS)
    assert ranks.part(found).size_bytes <= max(budget_bytes, ranks.part(LEAST_N).size_bytes)
    step = round(found * STEPS / 100)
    if found > LEAST_N and step < STEPS:
        assert ranks.part(100 * (step + 1) / STEPS).size_bytes > budget_bytes


@given(st.floats(2**-100, 2**100, width=32))
def test_the_largest_is_always_sent(largest: float) -> None:
    """Its rank must not be rounded down."""
    one = gradient([largest, *[largest / 2] * 40])
    assert Ranks(one).part(0).values == 1


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_sent(wrong: float) -> None:
    """The loss will not be finite, and says so; nothing fails before."""
    ranks = Ranks(gradient([wrong, 1.0, 2.0]))
    assert ranks.part(1).values == 3
    assert ranks.largest_n(0) == LEAST_N


def test_each_link_its_own() -> None:
    one = gradient(np.linspace(0.01, 1, 1000))
    both = {**links(1, bandwidth_bps=8e2).bandwidth_bps, **links(2).bandwidth_bps, 3: 8e6}
    found = per_link(one, type(links())(0, both, 1.0))
    assert found.keys() == {1, 2, 3}
    assert found[2].size_bytes < found[1].size_bytes <= 100 < found[3].size_bytes == 4000


def test_fixed_sends_all_the_same() -> None:
    one = gradient([1.0, 0.95, 0.5])
    found = MaxN(10)(one, links(1, 2))
    assert found[1] is found[2]
    flat = np.zeros(3)
    found[1].add_to(flat, 1.0)
    assert flat.tolist() == pytest.approx([1.0, 0.95, 0])
    assert MaxN(0)(one, links()) == {}


@pytest.mark.parametrize("wrong", [-1, 100.5, None])
def test_n_of_a_hook_is_a_percentage(wrong: Any) -> None:
    with pytest.raises(UserError, match="N is"):
        MaxN(wrong)


test_n_is_a_percentage = refusals(
    partial(max_n, np.ones(2)),
    {"n": 1},
    {
        "n": {
            "N is .*from 0 to 100": [-1, 100.5, 101, float("nan")],
            "N is .*give a number": ["10", None, True],
        }
    },
)

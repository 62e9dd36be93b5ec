"""Layers' seconds from segments'."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.oracles import layer_seconds as oracle
from workbench.dynacomm.costs.plan import runs
from workbench.dynacomm.programs.worker_and_server import Computed
from workbench.dynacomm.replanning.layer_seconds import estimate

LAYERS = 6
seconds = st.one_of(st.just(0.0), st.floats(1e-9, 1e6))
all_seconds = st.lists(seconds, min_size=LAYERS, max_size=LAYERS)
all_cuts = st.lists(st.sets(st.integers(1, LAYERS - 1)), min_size=1, max_size=5)


def segments(cuts: set[int]) -> list[tuple[int, int]]:
    return runs(sorted(cuts), LAYERS)


def took(true_s: list[float], cuts: set[int]) -> list[Computed]:
    return [Computed(first, last, sum(true_s[first - 1 : last])) for first, last in segments(cuts)]


def test_by_hand() -> None:
    # 1 and 3 s were believed of two layers that took 8 s together; the third took 5 s by itself.
    found = estimate(np.array([1.0, 3.0, 1.0]), [Computed(3, 3, 5.0), Computed(1, 2, 8.0)])
    assert found.tolist() == [2, 6, 5]


def test_two_iterations_by_hand() -> None:
    computed = [Computed(1, 2, 8.0), Computed(1, 1, 4.0), Computed(2, 2, 2.0)]
    assert estimate(np.array([1.0, 3.0]), computed).tolist() == [3, 4]


def test_what_was_believed_to_take_nothing_is_shared_out_evenly() -> None:
    assert estimate(np.zeros(2), [Computed(1, 2, 3.0)]).tolist() == [1.5, 1.5]


def test_layers_that_were_not_computed_stay_as_believed() -> None:
    assert estimate(np.array([1.0, 2.0]), [Computed(2, 2, 7.0)]).tolist() == [1, 7]
    assert estimate(np.array([1.0, 2.0]), []).tolist() == [1, 2]


@given(believed_s=all_seconds, cuts=all_cuts, data=st.data())
def test_as_the_loops_have_it(believed_s: list[float], cuts: list[set[int]], data) -> None:  # type: ignore[no-untyped-def]
    iterations = [
        [Computed(first, last, data.draw(seconds)) for first, last in segments(one)] for one in cuts
    ]
    found = estimate(np.array(believed_s), chain.from_iterable(iterations))
    assert found == pytest.approx(oracle.estimate(believed_s, iterations), rel=1e-9)


@given(believed_s=all_seconds, true_s=all_seconds, cuts=st.sets(st.integers(1, LAYERS - 1)))
def test_under_one_plan_every_segments_total_is_right(
    believed_s: list[float], true_s: list[float], cuts: set[int]
) -> None:
    found = estimate(np.array(believed_s), took(true_s, cuts) * 3)
    for first, last, whole_s in took(true_s, cuts):
        assert found[first - 1 : last].sum() == pytest.approx(whole_s, rel=1e-9)
        if first == last:
            assert found[first - 1] == pytest.approx(true_s[first - 1], rel=1e-9)


@given(believed_s=all_seconds, true_s=all_seconds)
def test_layer_by_layer_nothing_is_left_of_what_was_believed(
    believed_s: list[float], true_s: list[float]
) -> None:
    found = estimate(np.array(believed_s), took(true_s, set(range(1, LAYERS))))
    assert found.tolist() == pytest.approx(true_s)


@given(
    true_s=st.lists(st.floats(0.1, 10), min_size=LAYERS, max_size=LAYERS),
    believed_s=st.lists(st.floats(0.1, 10), min_size=LAYERS, max_size=LAYERS),
    cuts=all_cuts,
)
def test_what_segments_took_is_explained_better_and_better(
    true_s: list[float], believed_s: list[float], cuts: list[set[int]]
) -> None:
    """Richardson's and Lucy's iteration never makes the divergence larger; the truth is fixed."""
    computed = list(chain.from_iterable(took(true_s, one) for one in cuts))
    assert estimate(np.array(true_s), computed) == pytest.approx(np.array(true_s), rel=1e-12)

    def divergence(found: NDArray[np.float64]) -> float:
        sums = [(one.seconds, found[one.first - 1 : one.last].sum()) for one in computed]
        return float(sum(took_s * np.log(took_s / s) - took_s + s for took_s, s in sums))

    found = np.array(believed_s)
    for _ in range(5):
        before, found = divergence(found), estimate(found, computed)
        assert divergence(found) <= before + 1e-9


def test_cuts_that_vary_tell_layers_apart() -> None:
    """One cut each: what comes before it, and what behind, have one solution between them."""
    true_s = [1.0, 3.0, 0.5, 2.0, 1.5, 4.0]
    computed = list(chain.from_iterable(took(true_s, {cut}) for cut in range(1, LAYERS)))
    found = np.full(LAYERS, 2.0)
    for _ in range(3000):
        found = estimate(found, computed)
    assert found == pytest.approx(np.array(true_s), rel=1e-6)

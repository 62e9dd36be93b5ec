"""Estimates of links and layers, by hand, against the loops, and for any constant link."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, starmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dynacomm.jobs import BPS, job_of
from tests.oracles import layer_seconds as oracle
from workbench.dynacomm import LayerCosts
from workbench.dynacomm.costs.plan import runs
from workbench.dynacomm.programs.worker_and_server import Computed, Moved, Observed
from workbench.dynacomm.replanning.profiling import (
    Moments,
    Profile,
    Rate,
    estimate,
    fit,
    moments,
    step,
)

COSTS = LayerCosts([1, 2, 1], [2, 1, 2], [1, 3, 1], [2, 1, 1], overhead_s=0.5)
LAST = Rate(0.5, 8e6)
LAYERS = 6
seconds = st.one_of(st.just(0.0), st.floats(1e-9, 1e6))
all_seconds = st.lists(seconds, min_size=LAYERS, max_size=LAYERS)
all_cuts = st.lists(st.sets(st.integers(1, LAYERS - 1)), min_size=1, max_size=5)


def profile(window: int = 1) -> Profile:
    return Profile.before(job_of(COSTS), LAST, window=window)


def moved(*pairs: tuple[float, float]) -> tuple[Moved, ...]:
    return tuple(starmap(Moved, pairs))


def observed(*pulls: tuple[float, float]) -> Observed:
    everything = (Computed(1, 3, 5.0),)
    return Observed(moved(*pulls), (), everything, everything)


def is_about(rate: Rate, overhead_s: float, bandwidth_bps: float) -> bool:
    return bool(
        rate.overhead_s == pytest.approx(overhead_s, abs=1e-12)
        and rate.bandwidth_bps == pytest.approx(bandwidth_bps)
    )


@pytest.mark.parametrize(
    ("pairs", "overhead_s", "bandwidth_bps"),
    [
        # Two sizes make a line: a million bytes a second after 0.2 s.
        ([(1e6, 1.2), (3e6, 3.2)], 0.2, 8e6),
        # Least squares of three: means 2 and 3 s; slope (1 * 1 + 1 * 2) / 2 = 1.5; 3 - 1.5 * 2 = 0.
        ([(1, 2), (2, 2), (3, 5)], 0, 8 / 1.5),
        # One size keeps the overhead; the mean of what is left counts.
        ([(1e6, 2.5), (1e6, 2.5)], 0.5, 4e6),
        ([(1e6, 2.0), (1e6, 3.0)], 0.5, 4e6),
        # Less than the overhead changes both alike: 1.5 s were believed, 0.3 s taken.
        ([(1e6, 0.3)], 0.1, 40e6),
        # A falling line counts as one size: (1 * 3.5 + 2 * 0.5) / (1 + 4) = 0.9 s a million bytes.
        ([(1e6, 4.0), (2e6, 1.0)], 0.5, 8e6 / 0.9),
        # The line is 2 x - 1; no overhead is below 0; through 0: (1 * 1 + 3 * 5) / 10.
        ([(1e6, 1.0), (3e6, 5.0)], 0, 8e6 / 1.6),
        # Nothing to learn from changes nothing.
        ([], 0.5, 8e6),
        ([(0.0, 1.0)], 0.5, 8e6),
        ([(5.0, 0.0)], 0.5, 8e6),
    ],
)
def test_fit_by_hand(
    pairs: list[tuple[float, float]], overhead_s: float, bandwidth_bps: float
) -> None:
    assert is_about(fit(moments(pairs), LAST), overhead_s, bandwidth_bps)


@given(
    overhead_s=st.floats(0, 10),
    bandwidth_bps=st.floats(1e3, 1e9),
    sizes_s=st.lists(st.floats(0.01, 100), min_size=2, max_size=30),
)
def test_a_constant_link_is_recovered_from_two_sizes_on(
    overhead_s: float, bandwidth_bps: float, sizes_s: list[float]
) -> None:
    sizes_s = [*sizes_s, 2 * max(sizes_s)]
    pairs = [(seconds * bandwidth_bps / 8, overhead_s + seconds) for seconds in sizes_s]
    found = step(profile(), Observed(moved(*pairs), moved(*pairs[::-1]), (), ()))
    for rate in (found.pull, found.push):
        assert rate.bandwidth_bps == pytest.approx(bandwidth_bps, rel=1e-9)
        assert rate.overhead_s == pytest.approx(overhead_s, abs=1e-9 * max(pairs)[1])


def nothing_or(least: float, most: float) -> st.SearchStrategy[float]:
    """0, or nothing so small that floats lose digits."""
    return st.just(0.0) | st.floats(least, most)


@given(
    parts=st.lists(
        st.lists(st.tuples(nothing_or(1, 1e6), nothing_or(1e-9, 1e3)), max_size=5), max_size=4
    )
)
def test_moments_add_up(parts: list[list[tuple[float, float]]]) -> None:
    added = sum((moments(part) for part in parts), Moments())
    pairs = np.array([pair for part in parts for pair in part]).reshape(-1, 2)
    assert added.count == len(pairs)
    if len(pairs):
        from_mean = pairs - pairs.mean(axis=0)
        most_bytes, most_s = pairs.max(axis=0)
        # A mean of n numbers is off by n units in their last place, n products by that each.
        off = 8 * len(pairs) * np.finfo(float).eps
        assert added.mean_bytes == pytest.approx(pairs[:, 0].mean(), abs=off * most_bytes)
        assert added.bytes_bytes == pytest.approx(
            (from_mean[:, 0] ** 2).sum(), rel=1e-15, abs=off * len(pairs) * most_bytes**2
        )
        assert added.bytes_s == pytest.approx(
            from_mean.prod(axis=1).sum(), rel=1e-15, abs=off * len(pairs) * most_bytes * most_s
        )
        assert (added.least_bytes, added.most_bytes) == (pairs[:, 0].min(), pairs[:, 0].max())


def test_the_window_forgets() -> None:
    state = profile(window=2)
    for seconds in (9.0, 2.5, 3.5):
        state = step(state, observed((1e6, seconds)))
    assert len(state.recent) == 2
    assert state.pull.bandwidth_bps == pytest.approx(8e6 / 2.5)  # mean of 2 and 3 s


def test_two_iterations_of_one_size_each_make_a_line() -> None:
    state = profile(window=2)
    state = step(state, observed((1e6, 1.2)))
    assert state.pull.overhead_s == 0.5
    assert step(state, observed((3e6, 3.2))).pull.overhead_s == pytest.approx(0.2)


def test_directions_are_apart() -> None:
    pulls, pushes = moved((1e6, 1.0), (2e6, 2.0)), moved((1e6, 5.0), (2e6, 9.0))
    state = step(profile(), Observed(pulls, pushes, (), ()))
    assert state.pull.bandwidth_bps == pytest.approx(8e6)
    assert (state.push.overhead_s, state.push.bandwidth_bps) == pytest.approx((1, 2e6))
    assert state.costs(job_of(COSTS)).overhead_s == pytest.approx(0.5)  # the mean of the two


def test_what_tensors_cost_is_taken_off_and_put_back() -> None:
    job = replace(job_of(COSTS), tensors=(2, 0, 3))
    state = Profile.before(job, Rate(0.5, BPS, tensor_s=0.25))
    assert state.costs(job).pull_s.tolist() == [1.5, 2, 1.75]
    assert state.costs(job).push_s.tolist() == [2.5, 1, 1.75]
    # A million bytes a second after 0.5 s, and a quarter of a second for each tensor.
    pulls = (Moved(1e6, 2.0, 2), Moved(3e6, 4.25, 3))
    after = step(state, Observed(pulls, (), (), ()))
    assert is_about(after.pull, 0.5, BPS)
    assert after.pull.tensor_s == 0.25


@pytest.mark.parametrize("seconds", [0.3, 0.5, 2.0])
def test_the_belief_about_tensors_outlives_every_fit(seconds: float) -> None:
    last = Rate(0.5, 8e6, tensor_s=0.125)
    for pairs in ([(1e6, seconds)], [(1e6, seconds), (2e6, 5.0)], [(1e6, seconds), (2e6, 0.1)]):
        assert fit(moments(pairs), last).tensor_s == 0.125


def test_costs_are_those_of_the_link() -> None:
    costs = profile().costs(job_of(COSTS))
    for name in ("pull_s", "forward_s", "backward_s", "push_s", "overhead_s"):
        assert np.array_equal(getattr(costs, name), getattr(COSTS, name))


def test_a_layer_takes_what_its_part_on_one_server_takes() -> None:
    costs = profile().costs(job_of(COSTS, servers=2))
    assert costs.pull_s.tolist() == [0.5, 1, 0.5]


def segments(cuts: set[int]) -> list[tuple[int, int]]:
    return runs(sorted(cuts), LAYERS)


def took(true_s: list[float], cuts: set[int]) -> list[Computed]:
    return [Computed(first, last, sum(true_s[first - 1 : last])) for first, last in segments(cuts)]


@given(believed_s=all_seconds, cuts=all_cuts, data=st.data())
def test_estimate_is_that_of_the_loops(believed_s: list[float], cuts: list[set[int]], data) -> None:  # type: ignore[no-untyped-def]
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

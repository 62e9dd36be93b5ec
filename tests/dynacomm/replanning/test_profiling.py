"""Estimates of links and speed, by hand and for any constant link."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from itertools import starmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dynacomm.jobs import BPS, job_of, vectors, whole_layers
from workbench.dynacomm.programs.shards import split_evenly
from workbench.dynacomm.programs.worker_and_server import Computed, Moved, Observed
from workbench.dynacomm.replanning.profiling import Profile, step
from workbench.dynacomm.replanning.rates import Moments, Rate, fit, moments

COSTS = vectors([1, 2, 1], [2, 1, 2], [1, 3, 1], [2, 1, 1], overhead_s=0.5)
LAST = Rate(0.5, 8e6)


def profile(window: int = 1) -> Profile:
    return Profile.before(job_of(COSTS), LAST, window=window)


def moved(*pairs: tuple[float, float]) -> tuple[Moved, ...]:
    return tuple(starmap(Moved, pairs))


def observed(*pulls: tuple[float, float], factor: float = 1.0) -> Observed:
    everything = (Computed(1, 3, 5 * factor),)
    return Observed(moved(*pulls), (), everything, everything)


def is_about(rate: Rate, overhead_s: float, bandwidth_bps: float) -> bool:
    return bool(
        rate.overhead_s == pytest.approx(overhead_s, abs=1e-12)
        and rate.bandwidth_bps == pytest.approx(bandwidth_bps)
    )


def test_two_sizes_make_a_line() -> None:
    # 1 MB in 1.2 s and 3 MB in 3.2 s: a million bytes a second after 0.2 s.
    assert is_about(fit(moments([(1e6, 1.2), (3e6, 3.2)]), LAST), 0.2, 8e6)


def test_three_that_are_on_no_line_make_the_least_squares() -> None:
    # Hand: means 2 and 3 s; slope (1 * 1 + 1 * 2) / 2 = 1.5; 3 - 1.5 * 2 = 0.
    found = fit(moments([(1, 2), (2, 2), (3, 5)]), LAST)
    assert is_about(found, 0, 8 / 1.5)


def test_one_size_keeps_the_overhead() -> None:
    assert is_about(fit(moments([(1e6, 2.5), (1e6, 2.5)]), LAST), 0.5, 4e6)
    # Least squares through the overhead: the mean of what is left counts.
    assert is_about(fit(moments([(1e6, 2.0), (1e6, 3.0)]), LAST), 0.5, 4e6)


def test_one_size_in_less_than_the_overhead_changes_both_alike() -> None:
    # 1.5 s were believed, 0.3 s taken: both five times faster.
    found = fit(moments([(1e6, 0.3)]), LAST)
    assert is_about(found, 0.1, 40e6)
    assert found.transfer_s(1e6) == pytest.approx(0.3)


def test_a_line_that_falls_counts_as_one_size() -> None:
    # Through 0.5 s: (1 * 3.5 + 2 * 0.5) / (1 + 4) = 0.9 s a million bytes.
    found = fit(moments([(1e6, 4.0), (2e6, 1.0)]), LAST)
    assert is_about(found, 0.5, 8e6 / 0.9)


def test_an_overhead_below_zero_is_none() -> None:
    # The line is 2 x - 1; through 0: (1 * 1 + 3 * 5) / 10.
    found = fit(moments([(1e6, 1.0), (3e6, 5.0)]), LAST)
    assert is_about(found, 0, 8e6 / 1.6)


@pytest.mark.parametrize("pairs", [[], [(0.0, 1.0)], [(5.0, 0.0)]])
def test_nothing_to_learn_from_changes_nothing(pairs: list[tuple[float, float]]) -> None:
    assert fit(moments(pairs), LAST) == LAST


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


def test_a_slower_worker_is_seen() -> None:
    state = step(profile(), observed(factor=3))
    costs = state.costs(job_of(COSTS))
    assert costs.forward_s.tolist() == pytest.approx([6, 3, 6])
    assert costs.backward_s.tolist() == pytest.approx([3, 9, 3])


def test_directions_of_computing_are_apart() -> None:
    seen = Observed((), (), (Computed(1, 3, 5.0),), (Computed(1, 3, 15.0),))
    costs = step(profile(), seen).costs(job_of(COSTS))
    assert costs.forward_s.tolist() == COSTS.forward_s.tolist()
    assert costs.backward_s.tolist() == pytest.approx((3 * COSTS.backward_s).tolist())


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


def test_a_layer_takes_what_its_largest_part_takes() -> None:
    assert LAST.bandwidth_bps == BPS
    even = profile().costs(job_of(COSTS, shards=split_evenly(3, 2)))
    whole = profile().costs(job_of(COSTS, shards=whole_layers([0, 1, 0], 2)))
    assert even.pull_s.tolist() == [0.5, 1, 0.5]
    assert whole.pull_s.tolist() == [1, 2, 1]


def test_state_stays_as_it_is() -> None:
    state = profile()
    step(state, observed((1e6, 9.0)))
    assert (state.recent, state.pull) == ((), LAST)
    with pytest.raises(FrozenInstanceError):
        state.window = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rate(-1, 1), "overhead_s is -1"),
        (lambda: Rate(0, 0), "bandwidth_bps is 0"),
        (lambda: Rate(0, 1, -1), "tensor_s is -1"),
        (lambda: profile(window=0), "at least 1 iteration"),
    ],
)
def test_what_cannot_be_is_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        make()

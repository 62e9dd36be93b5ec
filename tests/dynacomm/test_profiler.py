"""Estimates of links and layers, by hand and for any constant link; plans made from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dynacomm.jobs import BPS, job_of, run_job
from tests.dynacomm.strategies import costs_of
from tests.oracles import layer_seconds as oracle
from workbench.clusters import Link, Schedule
from workbench.dynacomm import PLANNERS, LayerCosts, Plan, iteration
from workbench.dynacomm.costs import runs
from workbench.dynacomm.planners import Planner, dynacomm
from workbench.dynacomm.profiler import (
    PLANNING_MS,
    Line,
    Profile,
    Replanning,
    layer_seconds,
    planning_s,
)
from workbench.dynacomm.programs import Job, Observation, SegmentTime
from workbench.profiles import profile_model
from workbench.reproduction.claims import paper_value
from workbench.runtime import Run, Transfer

LAST = Line(0.5, 8e6)
CUT = 6  # layers of the chains whose segments are drawn
seconds = st.one_of(st.just(0.0), st.floats(1e-9, 1e6))
all_seconds = st.lists(seconds, min_size=CUT, max_size=CUT)

LAYERS = 12
ROWS = np.random.default_rng(5).lognormal(size=(4, LAYERS))
COSTS = costs_of(ROWS, 0.4)
LINK = Link(BPS, COSTS.overhead_s)
JOB = job_of(COSTS, 6)
RIGHT, WRONG = Line(0.4, BPS), Line(0.4, BPS / 20)


def transfers(pairs: Iterable[tuple[float, float]], tensors: int = 0) -> tuple[Transfer, ...]:
    """Transfers of these bytes in these seconds."""
    return tuple(Transfer(0, 1, "pull", size, 1.0, 1.0 + took, tensors) for size, took in pairs)


@pytest.mark.parametrize(
    ("pairs", "overhead_s", "bandwidth_bps"),
    [
        # Two sizes make a line: a million bytes a second after 0.2 s.
        ([(1e6, 1.2), (3e6, 3.2)], 0.2, 8e6),
        # Least squares of three: means 2 and 3 s; slope (1 * 1 + 1 * 2) / 2 = 1.5; 3 - 1.5 * 2 = 0.
        ([(1, 2), (2, 2.5), (3, 5)], 0.5 / 3, 8 / 1.5),
        # One size keeps the overhead; the mean of what is left counts.
        ([(1e6, 2.5), (1e6, 2.5)], 0.5, 4e6),
        ([(1e6, 2.0), (1e6, 3.0)], 0.5, 4e6),
        # Less than the overhead changes both alike: 1.5 s were expected, 0.3 s taken.
        ([(1e6, 0.3)], 0.1, 40e6),
        # A falling line counts as one size: (1 * 3.5 + 2 * 0.5) / (1 + 4) = 0.9 s a million bytes.
        ([(1e6, 4.0), (2e6, 1.0)], 0.5, 8e6 / 0.9),
        # The line is 2 x - 1; no overhead is below 0; through 0: (1 * 1 + 3 * 5) / 10.
        ([(1e6, 1.0), (3e6, 5.0)], 0, 8e6 / 1.6),
        # Nothing to learn from changes nothing.
        ([], 0.5, 8e6),
        ([(5.0, 0.0)], 0.5, 8e6),
    ],
)
@pytest.mark.parametrize("tensor_s", [0.0, 0.25])
def test_line_by_hand(
    pairs: list[tuple[float, float]], overhead_s: float, bandwidth_bps: float, tensor_s: float
) -> None:
    slower = [(size, took and took + 2 * tensor_s) for size, took in pairs]
    found = LAST._replace(tensor_s=tensor_s).fitted(transfers(slower, tensors=2))
    assert found == pytest.approx((overhead_s, bandwidth_bps, tensor_s), rel=1e-9, abs=1e-9)


@given(
    overhead_s=st.floats(0, 10),
    bandwidth_bps=st.floats(1e3, 1e9),
    sizes_s=st.lists(st.floats(0.01, 100), min_size=2, max_size=30),
)
def test_constant_link_is_recovered_from_two_sizes_on(
    overhead_s: float, bandwidth_bps: float, sizes_s: list[float]
) -> None:
    sizes_s = [*sizes_s, 2 * max(sizes_s)]
    pairs = [(took * bandwidth_bps / 8, overhead_s + took) for took in sizes_s]
    found = LAST.fitted(transfers(pairs))
    assert found.bandwidth_bps == pytest.approx(bandwidth_bps, rel=1e-9)
    assert found.overhead_s == pytest.approx(overhead_s, abs=1e-9 * max(pairs)[1])


def test_directions_are_estimated_apart_and_share_one_overhead() -> None:
    pulls = transfers([(1e6, 1.0), (2e6, 2.0)])
    pushes = transfers([(1e6, 5.0), (2e6, 9.0)])
    found = Profile.before(JOB, LAST).after([Observation(pulls, pushes, (), ())])
    assert found.pull == pytest.approx((0, 8e6, 0), abs=1e-9)
    assert found.push == pytest.approx((1, 2e6, 0))
    assert found.costs(JOB).overhead_s == pytest.approx(0.5)


def test_all_iterations_of_a_period_count() -> None:
    kept = [Observation(transfers([pair]), (), (), ()) for pair in ((1e6, 1.2), (3e6, 3.2))]
    assert Profile.before(JOB, LAST).after(kept).pull == pytest.approx((0.2, 8e6, 0))


def test_costs_are_those_of_the_link() -> None:
    costs = Profile.before(JOB, RIGHT).costs(JOB)
    for name in ("pull_s", "forward_s", "backward_s", "push_s"):
        assert getattr(costs, name) == pytest.approx(getattr(COSTS, name))
    two = replace(JOB, servers=2)  # each sends its part on a link of its own
    assert Profile.before(two, RIGHT).costs(two).pull_s == pytest.approx(COSTS.pull_s / 2)
    with_tensors = replace(JOB, tensors=tuple(range(LAYERS)))
    dearer = Profile.before(with_tensors, Line(0.4, BPS, 0.25)).costs(with_tensors)
    assert dearer.push_s == pytest.approx(COSTS.push_s + 0.25 * np.arange(LAYERS))


def timed(true_s: list[float], cuts: set[int]) -> list[SegmentTime]:
    """What the segments between `cuts` take."""
    segments = runs(sorted(cuts), CUT)
    return [SegmentTime(first, last, sum(true_s[first - 1 : last])) for first, last in segments]


@given(
    before_s=all_seconds,
    cuts=st.lists(st.sets(st.integers(1, CUT - 1)), min_size=1, max_size=5),
    true_s=st.lists(all_seconds, min_size=5, max_size=5),
)
def test_layer_seconds_are_those_of_the_loops(
    before_s: list[float], cuts: list[set[int]], true_s: list[list[float]]
) -> None:
    iterations = [timed(own_s, own) for own_s, own in zip(true_s, cuts, strict=False)]
    found = layer_seconds(np.array(before_s), [one for own in iterations for one in own])
    assert found == pytest.approx(oracle.estimate(before_s, iterations), rel=1e-9)


@given(before_s=all_seconds, true_s=all_seconds, cuts=st.sets(st.integers(1, CUT - 1)))
def test_under_one_plan_the_total_of_every_segment_is_right(
    before_s: list[float], true_s: list[float], cuts: set[int]
) -> None:
    found = layer_seconds(np.array(before_s), timed(true_s, cuts) * 3)
    for first, last, whole_s in timed(true_s, cuts):
        assert found[first - 1 : last].sum() == pytest.approx(whole_s, rel=1e-9)


def replanning(
    job: Job = JOB, nominal: Job = JOB, line: Line = WRONG, planner: Planner = dynacomm
) -> Replanning:
    """Plans for `job` after each iteration, at first from the seconds of `nominal`."""
    return Replanning(job, Profile.before(nominal, line), period=1, planner=planner)


def assert_fastest(plan: Plan, costs: LayerCosts) -> None:
    best_s = iteration(costs, dynacomm(costs)).total_s
    assert iteration(costs, plan).total_s == pytest.approx(best_s, rel=1e-6)


def last_profile(run: Run, policy: Replanning) -> Profile:
    profile = policy.profile
    for observation in run.results[0].observations:
        profile = profile.after([observation])
    return profile


@settings(deadline=None, max_examples=30)
@given(
    rows=st.lists(st.lists(st.floats(0.1, 10), min_size=6, max_size=6), min_size=4, max_size=4),
    overhead_s=st.floats(0.1, 2),
    factor=st.sampled_from([0.02, 0.3, 3.0, 50.0]),
)
def test_constant_link_is_planned_for_optimally_after_the_first_iterations(
    rows: list[list[float]], overhead_s: float, factor: float
) -> None:
    costs = costs_of(rows, overhead_s)
    job, link = job_of(costs, 6), Link(BPS, overhead_s)
    run = run_job(job, replanning(job, job, Line(overhead_s, BPS * factor)), link)
    for plan in run.results[0].plans[2:]:
        assert_fastest(plan, costs)


def test_unknown_overhead_is_learnt_as_soon_as_two_sizes_were_sent() -> None:
    plans = run_job(JOB, replanning(line=Line(0.05, BPS)), LINK).results[0].plans
    assert plans[0] != dynacomm(COSTS)
    for plan in plans[2:]:
        assert_fastest(plan, COSTS)


def test_any_planner_may_plan() -> None:
    for name, planner in PLANNERS.items():
        run = run_job(JOB, replanning(planner=planner), LINK)
        assert run.results[0].plans[-1] == planner(COSTS), name


def test_planning_costs_only_what_exceeds_the_idle_window() -> None:
    whole = iteration(COSTS, dynacomm(COSTS))
    window_s = whole.backward_s - float(COSTS.backward_s.sum())  # pushing after computing

    def end_s(planning_s: float) -> float:
        policy = replace(replanning(line=RIGHT), planning_s=planning_s)
        run = run_job(JOB, policy, LINK)
        assert run.results[0].plans == [dynacomm(COSTS)] * 6
        return run.end_s

    assert end_s(0.0) == pytest.approx(6 * whole.total_s)
    assert end_s(0.9 * window_s) == pytest.approx(6 * whole.total_s)
    assert end_s(window_s + 10) == pytest.approx(6 * whole.total_s + 5 * 10)


def test_planning_takes_what_table_1_says_of_the_model() -> None:
    for model, ms in PLANNING_MS.items():
        stated = [paper_value(f"dynacomm.table1.{model}.dynacomm_{way}") for way in ("fwd", "bwd")]
        assert 1e3 * planning_s(model, layers=1) == pytest.approx(ms) == pytest.approx(sum(stated))
    layers = len(profile_model("resnet152"))
    assert planning_s("another", layers) == pytest.approx(planning_s("resnet152", layers))
    assert planning_s("another", 2 * layers) == pytest.approx(8 * planning_s("another", layers))


def test_falling_bandwidth_is_followed() -> None:
    half_s = 6 * iteration(COSTS, dynacomm(COSTS)).total_s
    link = Link(Schedule.of([(0, BPS), (half_s, BPS / 4)]), COSTS.overhead_s)
    plans = run_job(replace(JOB, iterations=12), replanning(line=RIGHT), link).results[0].plans
    slow = costs_of((4 * ROWS[0], ROWS[1], ROWS[2], 4 * ROWS[3]), 0.4)
    assert plans[0] == dynacomm(COSTS)
    assert_fastest(plans[-1], slow)
    assert iteration(slow, plans[0]).total_s > iteration(slow, plans[-1]).total_s


def test_worker_that_is_slow_backward_only_is_followed() -> None:
    slow = costs_of((ROWS[0], ROWS[1], 3 * ROWS[2], ROWS[3]), COSTS.overhead_s)
    policy = replanning(line=RIGHT)
    run = run_job(job_of(slow, 6), policy, LINK)
    profile = last_profile(run, policy)
    assert profile.forward_s == pytest.approx(ROWS[1], rel=1e-9)
    assert profile.backward_s == pytest.approx(3 * ROWS[2], rel=1e-9)
    plans = run.results[0].plans
    assert plans[0] == dynacomm(COSTS) != plans[-1]
    assert_fastest(plans[-1], slow)


@settings(deadline=None, max_examples=30)
@given(forward_s=st.lists(st.floats(0, 100), min_size=LAYERS, max_size=LAYERS))
def test_wrong_seconds_of_layers_are_corrected_and_remembered(forward_s: list[float]) -> None:
    nominal = replace(JOB, forward_s=np.array(forward_s))
    apart = replanning(nominal=nominal, line=RIGHT, planner=PLANNERS["layer_by_layer"])
    profile = last_profile(run_job(JOB, apart, LINK), apart)
    assert profile.forward_s == pytest.approx(ROWS[1], rel=1e-9)
    at_once = replace(apart, profile=profile, planner=PLANNERS["sequential"])
    together = last_profile(run_job(JOB, at_once, LINK), at_once)
    assert together.forward_s == pytest.approx(ROWS[1], rel=1e-9)


def test_links_on_which_tensors_cost_are_planned_for_optimally() -> None:
    job = replace(JOB, tensors=tuple(range(LAYERS)))
    more_s = 0.2 * np.arange(LAYERS)
    dearer = costs_of((ROWS[0] + more_s, ROWS[1], ROWS[2], ROWS[3] + more_s), COSTS.overhead_s)
    policy = replanning(job, job, Line(0.4, BPS / 20, tensor_s=0.2))
    plans = run_job(job, policy, replace(LINK, tensor_s=0.2)).results[0].plans
    assert plans[0] != plans[-1]
    assert_fastest(plans[-1], dearer)


def test_several_servers_that_share_evenly_are_planned_for_as_one() -> None:
    job = job_of(COSTS, 4, servers=2)
    run = run_job(job, replanning(job, job), Link(BPS / 2, COSTS.overhead_s))
    assert run.results[0].plans[-1] == dynacomm(COSTS)

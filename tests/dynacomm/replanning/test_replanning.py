"""Planning again: when, from what, and at what cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dynacomm.jobs import BPS, job_of, run_job
from tests.dynacomm.strategies import costs_of
from workbench.clusters import Link, Schedule
from workbench.dynacomm import PLANNERS, LayerCosts, Plan, iteration
from workbench.dynacomm.algorithms import Planner
from workbench.dynacomm.algorithms.dynacomm import dynacomm
from workbench.dynacomm.paper.testbed import iteration_ends_s
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.replanning.clairvoyant import Clairvoyant
from workbench.dynacomm.replanning.profiling import (
    PLANNING_S,
    Profile,
    Rate,
    Replanned,
    step,
)
from workbench.runtime import Run

LAYERS = 12
ROWS = np.random.default_rng(5).lognormal(size=(4, LAYERS))
COSTS = costs_of(ROWS, 0.4)
LINK = Link(BPS, COSTS.overhead_s)
JOB = job_of(COSTS, 6)
WRONG = Rate(0.4, BPS / 20)


def replanned(rate: Rate = WRONG, **kwargs: object) -> Replanned:
    return Replanned(JOB, Profile.before(JOB, rate), every=1, **kwargs)  # type: ignore[arg-type]


def assert_fastest(plan: Plan, costs: LayerCosts) -> None:
    best_s = iteration(costs, dynacomm(costs)).total_s
    assert iteration(costs, plan).total_s == pytest.approx(best_s, rel=1e-6)


@settings(deadline=None, max_examples=30)
@given(
    rows=st.lists(st.lists(st.floats(0.1, 10), min_size=6, max_size=6), min_size=4, max_size=4),
    overhead_s=st.floats(0.1, 2),
    factor=st.sampled_from([0.02, 0.3, 3.0, 50.0]),
)
def test_a_constant_link_is_planned_for_optimally_after_the_first_iterations(
    rows: list[list[float]], overhead_s: float, factor: float
) -> None:
    costs = costs_of(rows, overhead_s)
    job, link = job_of(costs, 6), Link(BPS, overhead_s)
    believed = Profile.before(job, Rate(overhead_s, BPS * factor))
    run = run_job(job, Replanned(job, believed, every=1, planning_s=0), link)
    for plan in run.results[0].plans[2:]:
        assert_fastest(plan, costs)


def test_an_unknown_overhead_is_learnt_as_soon_as_two_sizes_were_seen() -> None:
    run = run_job(JOB, replanned(rate=Rate(0.05, BPS), planning_s=0), LINK)
    plans = run.results[0].plans
    assert plans[0] != dynacomm(COSTS)
    for plan in plans[2:]:
        assert_fastest(plan, COSTS)


def test_any_planner_may_plan() -> None:
    for name, planner in PLANNERS.items():
        run = run_job(JOB, replanned(planner=planner), LINK)
        assert run.results[0].plans[-1] == planner(COSTS), name


def test_planning_in_the_idle_window_costs_nothing_but_what_exceeds_it() -> None:
    plan = dynacomm(COSTS)
    whole = iteration(COSTS, plan)
    single_s = whole.total_s
    window_s = whole.backward_s - float(COSTS.backward_s.sum())  # pushing after computing

    def end_s(planning_s: float) -> float:
        right = Rate(COSTS.overhead_s, BPS)
        run = run_job(JOB, replanned(rate=right, planning_s=planning_s), LINK)
        assert run.results[0].plans == [plan] * 6
        return run.end_s

    assert end_s(0.0) == pytest.approx(6 * single_s)
    assert end_s(0.9 * window_s) == pytest.approx(6 * single_s)
    assert end_s(window_s + 10) == pytest.approx(6 * single_s + 5 * 10)


def test_a_bandwidth_that_falls_is_followed() -> None:
    long = replace(JOB, iterations=12)
    half_s = 6 * iteration(COSTS, dynacomm(COSTS)).total_s
    link = Link(Schedule.of([(0, BPS), (half_s, BPS / 4)]), COSTS.overhead_s)
    run = run_job(long, replanned(rate=Rate(0.4, BPS)), link)
    slow = LayerCosts(4 * ROWS[0], ROWS[1], ROWS[2], 4 * ROWS[3], 0.4)
    plans = run.results[0].plans
    assert plans[0] == dynacomm(COSTS)
    assert_fastest(plans[-1], slow)
    assert iteration(slow, plans[0]).total_s > iteration(slow, plans[-1]).total_s


def believing(job: Job, nominal: Job, planner: Planner = dynacomm) -> Replanned:
    """Plans for `job` from another's seconds, at the right rate, at once and at no cost."""
    right = Rate(COSTS.overhead_s, BPS)
    believed = Profile.before(nominal, right)
    return Replanned(job, believed, every=1, planner=planner, planning_s=0)


def last_belief(run: Run, planning: Replanned) -> Profile:
    state = planning.believed
    for observed in run.results[0].observed:
        state = step(state, observed)
    return state


def test_a_worker_that_is_slow_backward_only_is_followed() -> None:
    slow = LayerCosts(ROWS[0], ROWS[1], 3 * ROWS[2], ROWS[3], COSTS.overhead_s)
    planning = believing(JOB, JOB)
    run = run_job(job_of(slow, 6), planning, LINK)
    profile = last_belief(run, planning)
    assert profile.forward_s == pytest.approx(ROWS[1], rel=1e-9)
    assert profile.backward_s == pytest.approx(3 * ROWS[2], rel=1e-9)
    plans = run.results[0].plans
    assert plans[0] == dynacomm(COSTS) != plans[-1]
    assert_fastest(plans[-1], slow)


@settings(deadline=None, max_examples=30)
@given(
    believed_s=st.lists(
        st.lists(st.floats(0, 100), min_size=LAYERS, max_size=LAYERS), min_size=2, max_size=2
    )
)
def test_a_job_that_is_wrong_about_its_layers_is_set_right(believed_s: list[list[float]]) -> None:
    nominal = replace(JOB, forward_s=np.array(believed_s[0]), backward_s=np.array(believed_s[1]))
    one_by_one = believing(nominal, nominal, PLANNERS["layer_by_layer"])
    found = last_belief(run_job(JOB, one_by_one, LINK), one_by_one)
    assert found.forward_s == pytest.approx(ROWS[1], rel=1e-9)
    assert found.backward_s == pytest.approx(ROWS[2], rel=1e-9)
    in_segments = believing(nominal, nominal)
    run = run_job(JOB, in_segments, LINK)
    found = last_belief(run, in_segments)
    for guessed_s, true_s, computed in zip(
        (found.forward_s, found.backward_s),
        ROWS[1:3],
        run.results[0].observed[-1][2:],
        strict=True,
    ):
        assert guessed_s.sum() == pytest.approx(true_s.sum(), rel=1e-9)
        for first, last, seconds in computed:
            part = slice(first - 1, last)
            assert seconds == pytest.approx(true_s[part].sum(), rel=1e-9)
            assert guessed_s[part].sum() == pytest.approx(seconds, rel=1e-9)


def test_what_was_seen_apart_is_remembered_together() -> None:
    wrong = replace(JOB, forward_s=ROWS[1][::-1].copy())
    one_by_one = believing(wrong, wrong, PLANNERS["layer_by_layer"])
    apart = last_belief(run_job(JOB, one_by_one, LINK), one_by_one)
    at_once = replace(one_by_one, believed=apart, planner=PLANNERS["sequential"])
    together = last_belief(run_job(JOB, at_once, LINK), at_once)
    assert together.forward_s == pytest.approx(ROWS[1], rel=1e-9)


def test_links_on_which_tensors_cost_are_planned_for_optimally() -> None:
    tensors = tuple(range(LAYERS))
    job = replace(JOB, tensors=tensors)
    more_s = 0.2 * np.array(tensors)
    dearer = LayerCosts(ROWS[0] + more_s, ROWS[1], ROWS[2], ROWS[3] + more_s, COSTS.overhead_s)
    believed = Profile.before(job, Rate(0.4, BPS / 20, tensor_s=0.2))
    planning = Replanned(job, believed, every=1, planning_s=0)
    run = run_job(job, planning, replace(LINK, tensor_s=0.2))
    plans = run.results[0].plans
    assert plans[0] != plans[-1]
    assert_fastest(plans[-1], dearer)


@pytest.mark.parametrize("link", [replace(LINK, latency_s=0.1), replace(LINK, tensor_s=0.1)])
def test_a_clairvoyant_refuses_what_it_does_not_know(link: Link) -> None:
    job = replace(JOB, tensors=(1,) * LAYERS)
    with pytest.raises(ValueError, match="knows bandwidth and overhead only"):
        Clairvoyant(job, LINK, link)


def test_a_clairvoyant_knows_when_the_servers_have_stepped() -> None:
    """They step between iterations, and the bandwidth of the next one is that of its moment."""
    job = replace(JOB, aggregation_s=3.7)
    once_s = iteration(COSTS, dynacomm(COSTS)).total_s + job.aggregation_s
    steps = [(index * once_s / 2, BPS / (1, 8, 2, 16)[index % 4]) for index in range(40)]
    link = Link(Schedule.of(steps), COSTS.overhead_s)
    knowing = Clairvoyant(job, link, link)
    run = run_job(job, knowing, link)
    end_s, plan = knowing.begin()
    for number, simulated_s in enumerate(iteration_ends_s(run)):
        assert run.results[0].plans[number] == plan
        assert end_s == pytest.approx(simulated_s, rel=1e-9)
        end_s, plan = knowing._from(end_s)


def test_several_servers_that_share_evenly_are_planned_for_as_one() -> None:
    job = job_of(COSTS, 4, servers=2)
    planning = Replanned(job, Profile.before(job, WRONG), every=1)
    run = run_job(job, planning, Link(BPS / 2, COSTS.overhead_s))
    assert run.results[0].plans[-1] == dynacomm(COSTS)


def test_the_cost_of_planning_is_table_ones() -> None:
    assert replanned().planning_s == PLANNING_S == pytest.approx(0.02315)

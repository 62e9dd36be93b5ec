"""Planning anew: when, from what, and at what cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dynacomm.jobs import BPS, job_of, longer, run_job, vectors
from workbench.clusters import Link, Node, Schedule, star
from workbench.dynacomm import PLANNERS, LayerCosts, Plan, iteration
from workbench.dynacomm.dynacomm import dynacomm
from workbench.dynacomm.profiling import Profile
from workbench.dynacomm.programs import server, worker
from workbench.dynacomm.rates import Rate
from workbench.dynacomm.replanning import EPOCH, PLANNING_S, Replanned
from workbench.dynacomm.shards import split_evenly
from workbench.runtime import Run, simulate

LAYERS = 12
ROWS = np.random.default_rng(5).lognormal(size=(4, LAYERS))
COSTS = vectors(*ROWS, overhead_s=0.4)
LINK = Link(BPS, COSTS.overhead_s)
JOB = job_of(COSTS, 6)
WRONG = Rate(0.4, BPS / 20)


def replanned(every: int = 1, rate: Rate = WRONG, **kwargs: object) -> Replanned:
    return Replanned(JOB, Profile.before(JOB, rate), every=every, **kwargs)  # type: ignore[arg-type]


def planned_at(run: Run) -> list[int]:
    assert run.trace is not None
    return [int(label) for label in run.trace.frame.filter(pl.col("lane") == "plan")["label"]]


@settings(deadline=None, max_examples=30)
@given(
    rows=st.lists(st.lists(st.floats(0.1, 10), min_size=6, max_size=6), min_size=4, max_size=4),
    overhead_s=st.floats(0.1, 2),
    factor=st.sampled_from([0.02, 0.3, 3.0, 50.0]),
)
def test_a_constant_link_is_planned_for_optimally_after_the_first_iterations(
    rows: list[list[float]], overhead_s: float, factor: float
) -> None:
    costs = vectors(*rows, overhead_s=overhead_s)
    job, link = job_of(costs, 6), Link(BPS, overhead_s)
    believed = Profile.before(job, Rate(overhead_s, BPS * factor))
    run = run_job(job, Replanned(job, believed, every=1, planning_s=0), link)
    best_s = iteration(costs, dynacomm(costs)).total_s
    for plan in run.results[0].plans[2:]:
        assert iteration(costs, plan).total_s == pytest.approx(best_s, rel=1e-6)


def test_an_unknown_overhead_is_learnt_as_soon_as_two_sizes_were_seen() -> None:
    run = run_job(JOB, replanned(rate=Rate(0.05, BPS), planning_s=0), LINK)
    plans = run.results[0].plans
    assert plans[0] != dynacomm(COSTS)
    assert [iteration(COSTS, plan).total_s for plan in plans[2:]] == pytest.approx(
        [iteration(COSTS, dynacomm(COSTS)).total_s] * 4, rel=1e-9
    )


def test_plans_stay_for_as_long_as_asked() -> None:
    every_third = run_job(longer(JOB, 8), replanned(3), LINK)
    plans = every_third.results[0].plans
    assert planned_at(every_third) == [3, 6]
    assert plans[0] == plans[1] == plans[2] != plans[3]
    assert planned_at(run_job(JOB, replanned(EPOCH), LINK)) == []


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
    long = longer(JOB, 12)
    half_s = 6 * iteration(COSTS, dynacomm(COSTS)).total_s
    link = Link(Schedule.of([(0, BPS), (half_s, BPS / 4)]), COSTS.overhead_s)
    run = run_job(long, replanned(rate=Rate(0.4, BPS)), link)
    slow = LayerCosts(4 * ROWS[0], ROWS[1], ROWS[2], 4 * ROWS[3], 0.4)
    plans = run.results[0].plans
    assert plans[0] == dynacomm(COSTS)
    assert iteration(slow, plans[-1]).total_s == pytest.approx(
        iteration(slow, dynacomm(slow)).total_s, rel=1e-6
    )
    assert iteration(slow, plans[0]).total_s > iteration(slow, plans[-1]).total_s


def test_a_worker_that_slows_down_is_followed() -> None:
    cluster = star([Node("slow", speed=0.25)], 1, LINK)
    planning = replanned(rate=Rate(0.4, BPS))
    run = simulate(cluster, [worker(JOB, planning), server(JOB, 0)])
    slow = LayerCosts(ROWS[0], 4 * ROWS[1], 4 * ROWS[2], ROWS[3], 0.4)
    last: Plan = run.results[0].plans[-1]
    assert iteration(slow, last).total_s == pytest.approx(
        iteration(slow, dynacomm(slow)).total_s, rel=1e-6
    )


def test_several_servers_that_share_evenly_are_planned_for_as_one() -> None:
    job = job_of(COSTS, 4, shards=split_evenly(LAYERS, 2))
    planning = Replanned(job, Profile.before(job, WRONG), every=1)
    run = run_job(job, planning, Link(BPS / 2, COSTS.overhead_s))
    assert run.results[0].plans[-1] == dynacomm(COSTS)


def test_the_cost_of_planning_is_table_ones() -> None:
    assert replanned().planning_s == PLANNING_S == pytest.approx(0.02315)


def test_it_plans_at_least_every_iteration_or_seldomer() -> None:
    with pytest.raises(ValueError, match="every is 0"):
        replace(replanned(), every=0)

"""Plans for a link whose future is known, against the simulation and against all plans."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.dynacomm.jobs import BPS, job_of, run_job
from tests.dynacomm.strategies import costs_of
from tests.oracles.dynacomm import all_cuts
from workbench.clusters import Link, Schedule
from workbench.dynacomm import Plan, iteration
from workbench.dynacomm.algorithms.dynacomm import dynacomm
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.worker_and_server import Fixed
from workbench.dynacomm.replanning.clairvoyant import Clairvoyant, KnownLink, fastest, timed

WITHIN_S = 1e-9
LINK = KnownLink(Schedule.of([(0, 8), (10, 0), (20, 2)]), overhead_s=1)

seconds = st.floats(0.01, 10)
lengths_s = st.lists(st.floats(0.1, 10), max_size=5)
rates = st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0])


@st.composite
def links(draw: st.DrawFn) -> Link:
    """A link whose bandwidth changes up to five times, with outages; its last rate lasts."""
    starts_s, values = [0.0], [draw(rates)]
    for length_s in draw(lengths_s):
        starts_s.append(starts_s[-1] + length_s)
        values.append(draw(rates))
    values[-1] = values[-1] or 1.0
    bandwidth = Schedule(tuple(starts_s), tuple(value * BPS for value in values))
    return Link(bandwidth, overhead_s=draw(st.sampled_from([0.0, 0.3, 2.0])))


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """A job of a few layers, none without bytes."""
    layers = draw(st.integers(1, 5))
    rows = [draw(st.lists(seconds, min_size=layers, max_size=layers)) for _ in range(4)]
    return job_of(costs_of(rows, 0.0), iterations=2)


def test_a_course_by_hand() -> None:
    # From 0: 1 s of overhead, then 8 bits a second; 72 until 10 s, the rest from 20 s on.
    assert LINK.end_s(0, 72) == 10
    assert LINK.end_s(0, 76) == 22
    assert LINK.end_s(12, 0) == 13
    assert LINK.start_s(22, 76) == 0
    assert LINK.start_s(15, 8) == 8
    assert LINK.start_s(5, 41) == float("-inf")
    assert LINK.served(21) == 82


@given(link=links(), start_s=st.floats(0, 30), bits=st.floats(1e3, 1e9))
def test_the_latest_start_still_ends_in_time(link: Link, start_s: float, bits: float) -> None:
    known = KnownLink.of(link)
    end_s = known.end_s(start_s, bits)
    assume(known.bandwidth_bps.at(end_s) > 0)  # else rounding may cost a whole outage
    latest_s = known.start_s(end_s + 1e-6, bits)
    assert latest_s >= start_s
    assert known.end_s(max(0.0, latest_s - 1e-6), bits) <= end_s + 1e-6


@settings(deadline=None)
@given(job=jobs(), pull=links(), push=links(), cuts=st.sets(st.integers(1, 4)))
def test_timing_is_that_of_the_simulation(job: Job, pull: Link, push: Link, cuts: set[int]) -> None:
    kept = tuple(sorted(cut for cut in cuts if cut < job.layers))
    plan = Plan(kept, kept[1:])
    run = run_job(job, Fixed(plan), push, down=pull)
    once_s = timed(job, KnownLink.of(pull), KnownLink.of(push), plan, 0.0)
    twice_s = timed(job, KnownLink.of(pull), KnownLink.of(push), plan, once_s)
    assert run.end_s == pytest.approx(twice_s, rel=1e-9)


@settings(deadline=None)
@given(job=jobs(), pull=links(), push=links(), start_s=st.floats(0, 20))
def test_no_plan_is_faster(job: Job, pull: Link, push: Link, start_s: float) -> None:
    known = KnownLink.of(pull), KnownLink.of(push)
    found = fastest(job, *known, start_s=start_s, within_s=WITHIN_S, usual=Plan())
    every = list(all_cuts(job.layers))
    least_s = min(
        timed(job, *known, Plan(forward, backward), start_s)
        for forward in every
        for backward in every
    )
    found_s = timed(job, *known, found, start_s)
    assert found_s <= least_s + 2 * WITHIN_S + 1e-9 * least_s


@settings(deadline=None)
@given(job=jobs(), pull=links(), push=links(), data=st.data())
def test_knowing_beats_every_series_of_plans(job: Job, pull: Link, push: Link, data) -> None:  # type: ignore[no-untyped-def]
    known, at_s = (KnownLink.of(pull), KnownLink.of(push)), 0.0
    for _ in range(job.iterations):
        cuts = st.sampled_from(list(all_cuts(job.layers)))
        at_s = timed(job, *known, Plan(data.draw(cuts), data.draw(cuts)), at_s)
    run = run_job(job, Clairvoyant(job, pull, push), push, down=pull)
    assert run.end_s <= at_s + job.iterations * 2e-6 + 1e-9 * at_s


def test_at_a_constant_bandwidth_it_is_dynacomm() -> None:
    costs = costs_of([[1, 2, 1, 4], [2, 1, 2, 1], [1, 3, 1, 2], [2, 1, 1, 3]], 0.5)
    job, link = job_of(costs, 3), Link(BPS, 0.5)
    run = run_job(job, Clairvoyant(job, link, link), link)
    assert run.results[0].plans == [dynacomm(costs)] * 3
    assert run.end_s == pytest.approx(3 * iteration(costs, dynacomm(costs)).total_s)

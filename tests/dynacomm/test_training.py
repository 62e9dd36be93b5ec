"""Plans that change with the links during a training: when, for what, and the same weights."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.dynacomm.trainings import LENET, LINKS
from workbench.clusters import Link, Schedule
from workbench.dynacomm import PLANNERS, Plan
from workbench.dynacomm.profiler import Line, Profile
from workbench.dynacomm.programs import Report
from workbench.dynacomm.training import Setup, Trained, train

HETEROGENEOUS = replace(LENET, workers=3, servers=2, speeds=(1.0, 0.5, 0.25), batch_size=8)


def plans(found: Trained[torch.Tensor]) -> list[list[Plan]]:
    """Of each worker."""
    return [told.plans for told in found.run.results.values() if isinstance(told, Report)]


@pytest.mark.parametrize("scenario", LINKS)
@pytest.mark.parametrize("setup", [LENET, HETEROGENEOUS], ids=["one", "several"])
def test_weights_are_those_of_the_sequential_plan(scenario: str, setup: Setup) -> None:
    setup = replace(setup, link=LINKS[scenario])
    plain = train(setup, "sequential")
    for planner in ("dynacomm", "ibatch"):
        found = train(setup, planner, replan_every=1, planning_s=0.0)
        assert torch.equal(found.weights, plain.weights)
        assert found.epochs.drop("at_s").equals(plain.epochs.drop("at_s"))
        kept = [len(set(one)) for one in plans(train(setup, planner, replan_every=None))]
        assert kept == [1] * setup.workers
        changed = [len(set(one)) for one in plans(found)]
        assert max(changed) > 1, (planner, changed)


def test_unequal_workers_plan_unlike() -> None:
    found = train(replace(HETEROGENEOUS, link=LINKS["step"]), replan_every=1, planning_s=0.0)
    ways = plans(found)
    assert len({tuple(one) for one in ways}) > 1
    assert ways[0][0] == ways[1][0] == ways[2][0]  # before anything was seen


@pytest.mark.parametrize("every", ["epoch", 2, 1])
def test_plans_change_only_when_asked_to(every: Any) -> None:
    setup = replace(LENET, epochs=3, link=LINKS["step"])
    found = train(setup, replan_every=every, planning_s=0.0, trace=True)
    assert found.run.trace is not None
    planned = found.run.trace.frame.filter(lane="plan")["label"].cast(int).to_list()
    step = 6 if every == "epoch" else every  # 96 samples in batches of 16
    assert planned == list(range(step, 18, step))
    ways = plans(found)[0]
    assert len(set(ways)) > 1
    for number in range(1, 18):
        assert ways[number] == ways[number - 1] or number % step == 0


def test_an_interval_is_planned_for_from_all_that_was_seen_in_it() -> None:
    """Bandwidth falls in the middle of it, so its last iteration tells another story."""
    link = Link(Schedule.of([(0, 200e6), (0.05, 8e6)]), 0.001)
    setup = replace(LENET, link=link, epochs=1)
    found = train(setup, replan_every=5, planning_s=0.0)
    observed = found.run.results[0].observations[:5]
    job = setup.job(6)

    def planned(iterations: int) -> Plan:
        profile = Profile.before(job, Line(0.001, 200e6)).after(observed[-iterations:])
        return PLANNERS["dynacomm"](profile.costs(job))

    assert plans(found)[0][5] == planned(5) != planned(1)


def test_the_first_plan_is_for_the_bandwidth_at_the_start() -> None:
    steady = replace(LENET, link=Link(200e6, 0.001, tensor_s=1e-4))
    plan = PLANNERS["dynacomm"](steady.costs)
    slow = replace(LENET, link=Link(2e6, 0.001, tensor_s=1e-4))
    assert plan != PLANNERS["dynacomm"](slow.costs)
    changing = replace(LENET, link=LINKS["step"])
    assert changing.costs.pull_s.tolist() == steady.costs.pull_s.tolist()
    intervals: tuple[Any, ...] = (None, 1, "epoch")
    for every in intervals:
        assert plans(train(changing, replan_every=every))[0][0] == plan


def test_an_outage_at_the_start_is_planned_over() -> None:
    link = Link(Schedule.of([(0, 0), (3, 200e6)]), 0.001)
    found = train(replace(LENET, link=link), replan_every=1)
    assert plans(found)[0][0] == PLANNERS["dynacomm"](replace(LENET, link=Link(200e6, 0.001)).costs)
    assert found.run.end_s > 3
    rising = Link(Schedule.of([(0, 0), (3, 2e6), (4, 200e6), (5, 20e6)]), 0.001)
    assert replace(LENET, link=rising).first_bps == 2e6  # not the widest


def planned(found: Trained[torch.Tensor]) -> list[str]:
    """Before which iterations."""
    assert found.run.trace is not None
    return found.run.trace.frame.filter(lane="plan")["label"].to_list()


@pytest.mark.parametrize("planner", PLANNERS)
def test_only_dynacomm_plans_again_each_epoch_by_default(planner: str) -> None:
    setup = replace(LENET, link=LINKS["step"])
    by_default = train(setup, planner, trace=True)
    assert planned(by_default) == (["6"] if planner == "dynacomm" else [])
    each_epoch = train(setup, planner, replan_every="epoch", trace=True)
    assert planned(each_epoch) == ["6"]
    assert planned(train(setup, planner, replan_every=None, trace=True)) == []


@pytest.mark.parametrize("overhead_s", [0.0, 0.01])
def test_a_link_whose_bytes_take_no_time_is_profiled_too(overhead_s: float) -> None:
    setup = replace(LENET, link=Link(math.inf, overhead_s), workers=2)
    kept, again = (train(setup, replan_every=every, planning_s=0.0) for every in (None, 1))
    assert again.run.end_s == pytest.approx(kept.run.end_s, rel=1e-9)
    assert torch.equal(kept.weights, again.weights)

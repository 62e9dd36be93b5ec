"""The paper's testbed on the simulated network: as the model has it, and with unequal workers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from workbench.dynacomm import PLANNERS, LayerCosts, Plan, iteration
from workbench.dynacomm.paper.simulated import cluster_of, iteration_ends_s, job_of
from workbench.dynacomm.paper.testbed import Constants, Testbed, paper_testbed
from workbench.dynacomm.programs.worker_and_server import Fixed, server, worker
from workbench.profiles import profile_model
from workbench.runtime import Run, simulate

MODEL, BATCH = "googlenet", 16
TESTBED = paper_testbed()


def simulated(testbed: Testbed, plan: Plan, speeds: list[float] | None = None) -> Run:
    job = job_of(testbed, MODEL, BATCH, iterations=2)
    programs = [worker(job, Fixed(plan)) for _ in job.workers]
    programs += [server(job, position) for position in range(testbed.servers)]
    return simulate(cluster_of(testbed, speeds), programs, trace=True)


@pytest.mark.parametrize("explanation", ["key_granularity", "tensor_overhead", "bandwidth_only"])
@pytest.mark.parametrize("workers", [1, 3, 8])
def test_equal_workers_take_what_the_model_says(explanation: str, workers: int) -> None:
    testbed = replace(TESTBED, constants=Constants.load(explanation), workers=workers)
    costs = testbed.costs(MODEL, BATCH)
    plan = PLANNERS["dynacomm"](costs)
    once_s = iteration(costs, plan).total_s + testbed.aggregation_s(profile_model(MODEL))
    assert simulated(testbed, plan).end_s == pytest.approx(2 * once_s, rel=1e-9)


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_worker_at_half_speed_sets_the_pace_of_two(planner: str) -> None:
    """Two workers' interfaces are narrower than the four servers', so neither slows the other."""
    testbed = replace(TESTBED, workers=2)
    costs = testbed.costs(MODEL, BATCH)
    assert costs.forward_s.sum() + costs.backward_s.sum() > 2 * costs.pull_s.sum()
    plan = PLANNERS[planner](costs)
    slow = LayerCosts(
        costs.pull_s, 2 * costs.forward_s, 2 * costs.backward_s, costs.push_s, costs.overhead_s
    )
    once_s = iteration(slow, plan).total_s + testbed.aggregation_s(profile_model(MODEL))
    run = simulated(testbed, plan, [1.0, 0.5])
    assert np.diff([0.0, *iteration_ends_s(run)]) == pytest.approx([once_s] * 2, rel=1e-9)


def test_the_slowest_of_eight_pushes_alone() -> None:
    """By hand, in one piece: all pull at once on a shared link; the slow one pushes by itself."""
    costs, plan = TESTBED.costs(MODEL, BATCH), Plan()
    assert (TESTBED.workers, TESTBED.servers) == (8, 4)
    pulled_s = costs.overhead_s + costs.pull_s.sum()
    computed_s = 2 * (costs.forward_s.sum() + costs.backward_s.sum())
    shared_push_s = costs.overhead_s + costs.push_s.sum()
    assert computed_s / 2 > shared_push_s  # the others are through before the slow one begins
    # Eight share four servers' interfaces; one by itself has its own whole interface: twice that.
    alone_s = costs.overhead_s + costs.push_s.sum() / 2
    once_s = pulled_s + computed_s + alone_s + TESTBED.aggregation_s(profile_model(MODEL))
    run = simulated(TESTBED, plan, [1.0] * 7 + [0.5])
    assert run.end_s == pytest.approx(2 * once_s, rel=1e-9)


def test_equal_speeds_are_the_default() -> None:
    plan = PLANNERS["ibatch"](TESTBED.costs(MODEL, BATCH))
    assert simulated(TESTBED, plan, [1.0] * 8).end_s == simulated(TESTBED, plan).end_s
    with pytest.raises(ValueError, match="3 speeds for 8 workers"):
        cluster_of(TESTBED, [1.0] * 3)
    with pytest.raises(ValueError, match="speed of worker7"):
        cluster_of(TESTBED, [1.0] * 7 + [0.0])

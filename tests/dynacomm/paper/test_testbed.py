"""The paper's testbed against sums done by hand, and on the simulated network."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from workbench.dynacomm import PLANNERS, LayerCosts, Plan, iteration
from workbench.dynacomm.paper.testbed import (
    Constants,
    Testbed,
    iteration_ends_s,
    paper_testbed,
    variant,
)
from workbench.dynacomm.programs import FixedPlan, Server, Worker
from workbench.profiles import profile_model
from workbench.runtime import Run, simulate

CONSTANTS = Constants(
    link_efficiency=0.5,
    overhead_ms=10,
    backward_over_forward=3,
    whole_share=0.25,
    aggregation_mbps=1000,
)
TESTBED = Testbed({"lenet5": 100.0}, CONSTANTS, workers=8, servers=4, bandwidth_mbps=1000)


def test_workers_share_the_servers_interfaces() -> None:
    assert TESTBED.link.bandwidth_bps == 1000e6 * 4 / 8 * 0.5
    assert replace(TESTBED, workers=4).link.bandwidth_bps == 1000e6 * 0.5
    assert replace(TESTBED, workers=1).link.bandwidth_bps == 1000e6 * 0.5  # its own interface


def test_computation_adds_up_to_the_stated_speed() -> None:
    times = TESTBED.times("lenet5", batch_size=20)
    assert times.forward_s + times.backward_s == pytest.approx(20 / 100)
    assert times.backward_s == pytest.approx(3 * times.forward_s)


def test_costs_by_hand() -> None:
    costs = TESTBED.costs("lenet5", batch_size=20)
    profile = profile_model("lenet5")
    # All of LeNet-5's tensors are below the split bound: a quarter of 250 Mbit/s each.
    expected = profile.table["param_bytes"].to_numpy() * 8 / (250e6 * 0.25)
    assert costs.pull_s == pytest.approx(expected)
    assert np.array_equal(costs.push_s, costs.pull_s)
    assert costs.overhead_s == 0.01


def test_speedup_by_hand() -> None:
    alone_s = 20 / 100
    waiting_s = 8 * 61_706 * 4 * 8 / (4 * 1000e6)
    expected = 8 * alone_s / (iteration(TESTBED.costs("lenet5", 20), Plan()).total_s + waiting_s)
    assert TESTBED.speedup("lenet5", 20, Plan()) == pytest.approx(expected)


def test_models_without_a_stated_speed_run_at_the_mean_flop_rate() -> None:
    testbed = paper_testbed()
    rates = [
        testbed.speed(name) * profile_model(name).forward_flops
        for name in ("vgg19", "googlenet", "inception_v4", "resnet152", "resnet50")
    ]
    assert min(rates[:4]) < rates[4] < max(rates[:4])
    assert testbed.speed("vgg19") == 4.50


def test_variants_change_links_only() -> None:
    changed = variant(workers=2, bandwidth_mbps=500, overhead_ms=40)
    assert (changed.workers, changed.bandwidth_mbps) == (2, 500)
    assert changed.link.overhead_s == 0.04
    assert changed.samples_per_s == paper_testbed().samples_per_s


MODEL, BATCH = "googlenet", 16
PAPERS = paper_testbed()


def simulated(testbed: Testbed, plan: Plan, speeds: list[float] | None = None) -> Run:
    job = testbed.job(MODEL, BATCH, iterations=2)
    programs: list[Any] = [Worker(job, FixedPlan(plan)) for _ in range(testbed.workers)]
    programs += [Server(job, position) for position in range(testbed.servers)]
    return simulate(testbed.cluster(speeds), programs, trace=True)


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_equal_workers_take_what_the_model_says(workers: int) -> None:
    testbed = replace(PAPERS, workers=workers)
    costs = testbed.costs(MODEL, BATCH)
    plan = PLANNERS["dynacomm"](costs)
    once_s = iteration(costs, plan).total_s + testbed.aggregation_s(profile_model(MODEL))
    assert simulated(testbed, plan).end_s == pytest.approx(2 * once_s, rel=1e-9)


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_worker_at_half_speed_sets_the_pace_of_two(planner: str) -> None:
    """Two workers' interfaces are narrower than the four servers', so neither slows the other."""
    testbed = replace(PAPERS, workers=2)
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
    costs, plan = PAPERS.costs(MODEL, BATCH), Plan()
    assert (PAPERS.workers, PAPERS.servers) == (8, 4)
    pulled_s = costs.overhead_s + costs.pull_s.sum()
    computed_s = 2 * (costs.forward_s.sum() + costs.backward_s.sum())
    shared_push_s = costs.overhead_s + costs.push_s.sum()
    assert computed_s / 2 > shared_push_s  # the others are through before the slow one begins
    # Eight share four servers' interfaces; one by itself has its own whole interface: twice that.
    alone_s = costs.overhead_s + costs.push_s.sum() / 2
    once_s = pulled_s + computed_s + alone_s + PAPERS.aggregation_s(profile_model(MODEL))
    run = simulated(PAPERS, plan, [1.0] * 7 + [0.5])
    assert run.end_s == pytest.approx(2 * once_s, rel=1e-9)

"""Durations of a pipeline's step that theory states."""

from dataclasses import replace

import numpy as np
import pytest

from tests.oracles import pipelines as oracle
from tests.pipelines.problems import chain, drawn, some_plan, uniform
from workbench.clusters import Link
from workbench.pipelines import Tied, iteration
from workbench.pipelines.bounds import bound_s
from workbench.pipelines.costs import timeline


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("stages", [1, 2, 4, 7])
@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_equal_stages_have_the_bubble_of_the_papers(
    stages: int, count: int, schedule: str, blocking: bool
) -> None:
    problem = uniform(stages, count)
    plan = chain(range(1, stages + 1), microbatches=count, schedule=schedule, blocking=blocking)
    found = iteration(problem, plan)
    assert found.total_s == pytest.approx(3 * (count + stages - 1), abs=1e-9)
    assert found.bubble == pytest.approx((stages - 1) / (count + stages - 1), abs=1e-9)
    assert timeline(problem, plan).end_s == found.total_s


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_transfer_between_equal_stages_costs_gpipe_its_way_there_and_back(count: int) -> None:
    problem = uniform(3, count, link=Link(16.0, overhead_s=0.25, latency_s=0.125))  # 0.75 + 0.125
    plan = chain((1, 2, 3), microbatches=count, schedule="gpipe")
    assert iteration(problem, plan).total_s == pytest.approx(3 * (count + 2) + 4 * 0.875, abs=1e-9)


@pytest.mark.parametrize("seed", range(100))
def test_a_step_takes_the_longest_path_through_its_events(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, layers = int(rng.integers(2, 6)), int(rng.integers(2, 7))
    problem = drawn(rng, layers=layers, nodes=nodes, batch=24, equal=True)
    if seed % 2:
        sizes = problem.param_bytes + 8
        problem = replace(problem, param_bytes=sizes, tied=(Tied(8, (1, layers)),))
    plan = some_plan(rng, problem)
    found = iteration(problem, plan).total_s
    assert found == pytest.approx(oracle.step_s(problem, plan), rel=1e-12)
    assert bound_s(problem, plan) <= found * (1 + 1e-12)

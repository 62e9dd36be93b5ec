"""Durations of a pipeline's step that theory states."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.oracles import pipelines as oracle
from tests.pipelines.problems import chain, drawn, uniform
from workbench.clusters import Link
from workbench.pipelines import Plan, Problem, Stage, Tied, iteration
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


def some_plan(rng: np.random.Generator, problem: Problem) -> Plan:
    """Draw a plan, whether it fits or not."""
    count = int(rng.integers(1, min(problem.nodes, problem.layers) + 1))
    cuts = sorted(rng.choice(problem.layers - 1, count - 1, replace=False) + 1)
    lasts = [*map(int, cuts), problem.layers]
    order = list(map(int, rng.permutation(problem.nodes)))
    ends = sorted(rng.choice(problem.nodes - 1, count - 1, replace=False) + 1)
    groups = [order[a:b] for a, b in pairwise([0, *map(int, ends), problem.nodes])]
    count = int(rng.choice([m for m in (1, 2, 4) if problem.batch // m >= max(map(len, groups))]))
    samples = problem.batch // count
    stages = []
    for first, last, nodes in zip([1, *(n + 1 for n in lasts)], lasts, groups, strict=False):
        cut = sorted(rng.choice(samples - 1, len(nodes) - 1, replace=False) + 1)
        shares = [int(b - a) for a, b in pairwise([0, *cut, samples])]
        stages.append(Stage(first, last, tuple(zip(nodes, shares, strict=True))))
    depths = sorted(map(int, rng.integers(1, 6, len(stages))), reverse=True)
    return Plan(
        stages=tuple(stages),
        microbatches=count,
        schedule=str(rng.choice(["gpipe", "1f1b"])),
        in_flight=tuple(depths),
        recompute=tuple(map(bool, rng.integers(0, 2, len(stages)))),
    )


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

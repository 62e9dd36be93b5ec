"""PipeDream without a flush: its partitions against all partitions, its programs against theory."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

from tests.oracles import pipelines as oracle
from tests.pipelines.problems import chain, drawn, some_plan, uniform
from workbench.clusters import Link
from workbench.pipelines import Plan, Problem
from workbench.pipelines.asynchronous import balanced, busiest_stage_or_link_s
from workbench.pipelines.programs import cluster_of, programs_of
from workbench.runtime import simulate


@pytest.mark.parametrize("seed", range(40))
def test_no_other_cuts_have_a_faster_busiest_stage_or_link(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, layers = int(rng.integers(2, 5)), int(rng.integers(4, 8))
    problem = drawn(rng, layers=layers, nodes=nodes, batch=8, equal=False)
    links = {pair: problem.links.get(pair, Link(64.0)) for pair in combinations(range(nodes), 2)}
    problem = replace(problem, links={**problem.links, **links}, first_trained=1)

    def busiest_s(lasts: tuple[int, ...]) -> float:
        stages = enumerate(pairwise((0, *lasts)))
        work_s = 8 * (problem.forward_s + problem.backward_s) + problem.update_s
        for fixed_s in (problem.forward_fixed_s, problem.backward_fixed_s):
            work_s = work_s if fixed_s is None else work_s + fixed_s
        busy_s = [work_s[node, first:last].sum() for node, (first, last) in stages]
        for node, last in enumerate(lasts[:-1]):
            link = problem.links[node, node + 1]
            size_bytes = 8 * problem.output_bytes[last - 1]
            busy_s.append(link.overhead_s + link.transfer_s([size_bytes]))
        return float(max(busy_s))

    plan = balanced(problem, range(nodes))
    every = [(*cuts, layers) for cuts in combinations(range(1, layers), nodes - 1)]
    least_s = min(map(busiest_s, every))
    assert busiest_s(tuple(stage.last for stage in plan.stages)) == pytest.approx(least_s)


@pytest.mark.parametrize("seed", range(40))
def test_programs_send_gradients_on_before_they_update(seed: int) -> None:
    """Simulated micro-batches end when the naive event graph's do."""
    rng = np.random.default_rng(seed)
    nodes, layers = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    problem = drawn(rng, layers=layers, nodes=nodes, batch=8, equal=True)
    plan = replace(some_plan(rng, problem), schedule="1f1b")
    longer = replace(plan, microbatches=3 * plan.microbatches)
    expected_s = oracle.step_s(replace(problem, batch=24), longer, flush=False)
    run = simulate(cluster_of(problem), programs_of(problem, plan, 3, flushes=False))
    assert run.end_s == pytest.approx(expected_s, rel=1e-9)


def microbatch_s(problem: Problem, plan: Plan) -> float:
    """Seconds a micro-batch of a simulated pipeline, once it is full."""
    ends_s = [
        simulate(cluster_of(problem), programs_of(problem, plan, steps, flushes=False)).end_s
        for steps in (6, 12)
    ]
    return (ends_s[1] - ends_s[0]) / (6 * plan.microbatches)


def test_slowest_stage_alone_counts_without_a_flush() -> None:
    problem = uniform(3, 8, update_s=np.full((3, 3), 0.5))
    plan = chain((1, 2, 3), microbatches=8)
    assert microbatch_s(problem, plan) == pytest.approx(3.5)
    whole = replace(plan, stages=chain((1, 2, 3), 8, microbatches=1).stages, microbatches=1)
    assert busiest_stage_or_link_s(problem, whole) == 8 * 3 + 0.5


def test_more_micro_batches_in_flight_hide_transfers() -> None:
    problem = uniform(4, 8, link=Link(8 / 1.5))  # 21 s there and back, 3 s a micro-batch: 7
    shallow, deep = (
        chain((1, 2, 3, 4), microbatches=8, in_flight=depths) for depths in ((), (7, 5, 3, 1))
    )
    assert microbatch_s(problem, deep) == pytest.approx(3.0, rel=1e-9)
    assert microbatch_s(problem, shallow) == pytest.approx(21 / 4, rel=1e-9)

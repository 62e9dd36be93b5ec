"""PipeDream's steady state against a long run, and its staleness."""

from dataclasses import replace

import numpy as np
import pytest

from tests.oracles import pipelines as oracle
from tests.pipelines.problems import chain, drawn, some_plan, uniform
from workbench.clusters import Link
from workbench.pipelines.asynchronous import steady
from workbench.pipelines.programs import cluster_of, programs_of
from workbench.runtime import simulate


@pytest.mark.parametrize("seed", range(12))
def test_a_long_run_takes_the_steady_state_for_each_microbatch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, layers = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    problem = drawn(rng, layers=layers, nodes=nodes, batch=24, equal=True)
    plan = replace(some_plan(rng, problem), schedule="1f1b")
    samples, ends_s = plan.samples, []
    for count in (120, 240):  # cycles of one to five micro-batches end alike at both
        longer = replace(plan, microbatches=count)
        ends_s.append(oracle.step_s(replace(problem, batch=count * samples), longer, flush=False))
    found = steady(problem, plan)
    assert found.microbatch_s == pytest.approx((ends_s[1] - ends_s[0]) / 120, rel=1e-7)


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


def test_equal_stages_without_a_flush_have_no_bubble() -> None:
    problem, plan = uniform(4, 8), chain((1, 2, 3, 4), microbatches=8)
    found = steady(problem, plan)
    assert found.microbatch_s == pytest.approx(3.0, rel=1e-9)
    assert found.staleness == (3, 2, 1, 0)


def test_more_micro_batches_in_flight_hide_transfers_and_make_weights_older() -> None:
    problem = uniform(4, 8, link=Link(8 / 1.5))  # 21 s there and back, 3 s a micro-batch: 7
    shallow = steady(problem, chain((1, 2, 3, 4), microbatches=8))
    deep = steady(problem, chain((1, 2, 3, 4), microbatches=8, in_flight=(7, 5, 3, 1)))
    assert deep.microbatch_s == pytest.approx(3.0, rel=1e-9)
    assert shallow.microbatch_s == pytest.approx(21 / 4, rel=1e-9)
    assert deep.staleness == (6, 4, 2, 0)

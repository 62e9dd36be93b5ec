"""Durations of a pipeline's step that theory states."""

from dataclasses import replace

import numpy as np
import pytest

from tests.oracles import pipelines as oracle
from tests.pipelines.problems import chain, drawn, owned, some_plan, uniform
from workbench.clusters import Link
from workbench.pipelines import Tied, iteration, orders
from workbench.pipelines.bounds import bound_s
from workbench.pipelines.longest_path import timeline
from workbench.pipelines.problems import Shared
from workbench.utils.checks import UserError


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
    if seed % 3 == 0:
        problem = owned(rng, problem)
    plan = some_plan(rng, problem)
    found = iteration(problem, plan).total_s
    assert found == pytest.approx(oracle.step_s(problem, plan), rel=1e-12)
    assert bound_s(problem, plan) <= found * (1 + 1e-12)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_seconds_beside_those_of_samples_are_charged_by_micro_batch(
    count: int, schedule: str
) -> None:
    fixed_s = np.full((3, 3), 0.5)
    problem = uniform(3, 8, forward_fixed_s=fixed_s, backward_fixed_s=2 * fixed_s)
    plan = chain((1, 2, 3), 8 // count, microbatches=count, schedule=schedule)
    pass_s = 3 * 8 / count + 1.5
    assert iteration(problem, plan).total_s == pytest.approx((count + 2) * pass_s, abs=1e-9)


def test_frozen_layers_have_no_backward_pass_of_fixed_seconds() -> None:
    fixed_s = np.full((2, 2), 0.5)
    problem = uniform(2, 1, forward_fixed_s=fixed_s, backward_fixed_s=2 * fixed_s, first_trained=2)
    assert iteration(problem, chain((1, 2), microbatches=1)).total_s == 1.5 + 1.5 + 3.0


@pytest.mark.parametrize("bytes_of_gradient", [1, 50])
def test_messages_wait_for_samples_on_their_link(bytes_of_gradient: int) -> None:
    """Node 1 sends 80 bytes of samples, then the gradient; a capacity carries both ways."""
    problem = uniform(
        2,
        8,
        link=Link(8.0),  # a byte a second
        owners={1: 1.0},
        sample_bytes=10,
        output_bytes=np.full(2, bytes_of_gradient / 8),
    )
    plan = chain((1, 2), 8, microbatches=1)
    found = iteration(problem, plan)
    there_s = max(80, 8 + bytes_of_gradient + 24)
    assert found.total_s == pytest.approx(there_s + bytes_of_gradient + 16)
    assert found.sent_bytes == {(1, 0): 80 + bytes_of_gradient, (0, 1): bytes_of_gradient}
    both = Shared(4.0, frozenset({(0, 1), (1, 0)}))
    narrow = iteration(replace(problem, shared=(both,)), plan)
    assert narrow.total_s == pytest.approx(2 * (80 + 2 * bytes_of_gradient))


def test_orders_of_anything_but_a_plan_are_refused() -> None:
    with pytest.raises(TypeError, match=r"plan is None; give a pipelines\.Plan"):
        orders(None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="first_trained is 'a'"):
        orders(chain((1, 2), microbatches=1), "a")  # type: ignore[arg-type]

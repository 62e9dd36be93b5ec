"""Predicted seconds, bytes and memory are those of the programs, of naive loops and by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from tests.long import usually
from tests.oracles import sharding as oracle
from tests.sharding.problems import cluster_of, random_plan, random_problem
from workbench.clusters import Link
from workbench.profiles import Tied
from workbench.runtime import simulate
from workbench.sharding import (
    PLANNERS,
    Plan,
    Problem,
    ends_s,
    iteration_s,
    needed_bytes,
    sent_bytes,
)
from workbench.sharding.costs import lacking, steady
from workbench.sharding.planners import cuts, plans
from workbench.sharding.programs import dry_run
from workbench.utils.checks import UserError

EQUAL = Problem(
    forward_s=np.full((4, 3), 1.0),
    backward_s=np.full((4, 3), 2.0),
    update_s=np.full((4, 3), 0.4),
    param_bytes=np.array([4e6, 8e6, 4e6]),
    links=dict.fromkeys(permutations(range(4), 2), Link(8e6)),
)
"""Four equal nodes; a share of layers 1 and 3 takes a second, one of layer 2 two seconds."""


@pytest.mark.parametrize("seed", usually(range(60), range(300)))
def test_predicted_iterations_take_what_simulated_ones_take(seed: int) -> None:
    problem = random_problem(seed)
    plan = random_plan(problem, seed)
    run = simulate(cluster_of(problem), dry_run(problem, plan, 3))
    assert run.end_s == pytest.approx(ends_s(problem, plan, 3)[-1], rel=1e-9)
    assert run.bytes == pytest.approx(3 * problem.nodes * sent_bytes(problem, plan))


@pytest.mark.parametrize("seed", range(20))
def test_one_bucket_in_stage_0_is_an_all_reduce_after_the_backward_pass(seed: int) -> None:
    problem = replace(random_problem(seed), accumulate=1)
    if problem.param_bytes.sum():
        expected_s = oracle.all_reduce_end_s(problem, 3)
        assert ends_s(problem, Plan(stage=0), 3)[-1] == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        # 3 + 6 of computing, 2 x 4 of exchanging the model, 1.2 of updating
        (Plan(stage=0), 18.2),
        # backward of layer 3 ends at 5, all-reduces at 7, 11 and 13
        (Plan(stage=0, cuts=(1, 2)), 14.2),
        # reduce-scatters end at 6, 9 and 10, the update at 10.3, gathers 4 s later
        (Plan(stage=1, cuts=(1, 2)), 14.3),
        (Plan(stage=2, cuts=(1, 2)), 14.3),
        # gathers end at 1, 3 and 4, forward at 5; backward of layer 3 and the gather of 2 end at 7,
        # the reduction of 3 at 8, backward of 2 and the gather of 1 at 9, backward of 1 and the
        # reduction of 2 at 11, the reduction of 1 at 12
        (Plan(stage=3, cuts=(1, 2)), 12.3),
    ],
    ids=str,
)
def test_an_iteration_by_hand(plan: Plan, seconds: float) -> None:
    assert ends_s(EQUAL, plan) == pytest.approx([seconds])


@pytest.mark.parametrize(("stage", "models"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_bytes_are_those_of_the_paper(stage: int, models: int) -> None:
    """Sec. 7; in stage 3 the last bucket, a quarter here, stays gathered between its passes."""
    plan = Plan(stage=stage, cuts=(1, 2))
    expected = models * 16e6 * 3 / 4 - (4e6 * 3 / 4 if stage == 3 else 0)
    assert sent_bytes(EQUAL, plan) == expected


@pytest.mark.parametrize(("stage", "models"), [(0, 2), (1, 2), (2, 4), (3, 9)])
def test_gradients_of_three_batches_are_reduced_at_once_or_as_each_is_made(
    stage: int, models: int
) -> None:
    """Stages 2 and 3 hold a share of the gradients alone; stage 3 gathers twice a batch, too."""
    thrice, plan = replace(EQUAL, accumulate=3), Plan(stage=stage, cuts=(1, 2))
    kept = 3 * 4e6 if stage == 3 else 0.0
    assert sent_bytes(thrice, plan) == (models * 16e6 - kept) * 3 / 4
    assert needed_bytes(thrice, plan).tolist() == needed_bytes(EQUAL, plan).tolist()


@pytest.mark.parametrize(
    ("stage", "megabytes"),
    [
        (0, 16 + 16 + 16),
        (1, 16 + 16 + 4),
        # two buckets of gradients
        (2, 16 + 4 + 4 + 12),
        # two of parameters, two of gradients
        (3, 4 + 4 + 4 + 12 + 12),
    ],
)
def test_memory_by_hand(stage: int, megabytes: float) -> None:
    problem = replace(EQUAL, optimiser_vectors=1.0)
    assert needed_bytes(problem, Plan(stage=stage, cuts=(1, 2))).tolist() == [megabytes * 1e6] * 4


@pytest.mark.parametrize("seed", usually(range(20), range(50)))
def test_memory_is_the_largest_of_all_passes(seed: int) -> None:
    problem = replace(random_problem(seed), tied=())
    plan = random_plan(problem, seed)
    sending_bytes = steady(problem, plan).sending_bytes.max(axis=0)
    least_bytes = oracle.peak_bytes(problem, plan)
    needed = needed_bytes(problem, plan)
    assert (needed >= least_bytes * (1 - 1e-12)).all()
    assert (needed <= (least_bytes + sending_bytes) * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", usually(range(50), range(200)))
def test_memory_covers_what_is_held_when_collectives_end_late(seed: int) -> None:
    """With ties, several batches, and buckets of nothing that is trained."""
    problem = random_problem(seed)
    sizes = problem.param_bytes * (np.arange(problem.layers) >= seed % 3)
    if problem.tied:
        sizes[0] += 1e5
    problem = replace(problem, param_bytes=sizes)
    plan = random_plan(problem, seed)
    held = oracle.held_bytes(problem, plan)
    assert (needed_bytes(problem, plan) >= held - 1e-3).all()


def gradient_bytes(problem: Problem, plan: Plan, iterations: int) -> list[float]:
    """Most bytes of whole gradients on each node as backward passes begin, in a simulated run.

    A gradient is held until its own node has it reduced; what the node still sends of it to nodes
    that are behind, until that has left.
    """
    sizes = [bucket.size_bytes for bucket in problem.buckets(plan)]
    run = simulate(cluster_of(problem), dry_run(problem, plan, iterations), trace=True)
    assert run.trace is not None
    frame = run.trace.frame
    reduced = [bucket for bucket in reversed(range(len(sizes))) if sizes[bucket]]
    sent_s = {
        (a, b): frame.filter(node=f"n{a}", lane=f"to n{b}", label="reduce")["end_s"].to_list()
        for a, b in problem.links
    }
    most = [0.0] * problem.nodes
    for node in range(problem.nodes):
        starts_s = frame.filter(node=f"n{node}", lane="backward")["start_s"].to_list()
        for number, start_s in enumerate(starts_s):
            batch, behind = divmod(number, len(sizes))
            bucket = len(sizes) - 1 - behind
            begun = batch * len(reduced) + sum(other > bucket for other in reduced)
            held = sizes[bucket]
            for at in range(begun):
                size = sizes[reduced[at % len(reduced)]]
                received_s = [
                    ends_s[at] + problem.links[a, b].latency_s
                    for (a, b), ends_s in sent_s.items()
                    if b == node
                ]
                if max(received_s, default=0.0) > start_s * (1 + 1e-12):
                    held += size
                else:
                    late = sum(
                        ends_s[at] > start_s for (a, _), ends_s in sent_s.items() if a == node
                    )
                    held += size / problem.nodes * late
            most[node] = max(most[node], held)
    return most


@pytest.mark.parametrize("seed", usually(range(50), range(200)))
def test_memory_covers_what_a_simulated_node_holds_and_still_sends(seed: int) -> None:
    problem = replace(random_problem(seed), tied=())
    plan = replace(random_plan(problem, seed), stage=2)
    shares_bytes = problem.param_bytes.sum() * (1 + (1 + problem.optimiser_vectors) / problem.nodes)
    counted = gradient_bytes(problem, plan, steady(problem, plan).last)
    assert (needed_bytes(problem, plan) - shares_bytes >= np.array(counted) - 1e-3).all()


def test_node_ahead_of_a_slow_link_holds_what_it_still_sends() -> None:
    """Node 0 has layer 3 reduced long before its share has left for node 1."""
    slow = {**EQUAL.links, (0, 1): Link(8e5)}
    problem, plan = replace(EQUAL, links=slow), Plan(stage=2, cuts=(1, 2))
    late_bytes = needed_bytes(problem, plan) - needed_bytes(EQUAL, plan)
    assert late_bytes.tolist() == [1e6, 0.0, 0.0, 0.0]
    expected = 16e6 + 4e6 + gradient_bytes(problem, plan, 2)[0]
    assert needed_bytes(problem, plan)[0] == expected


def test_tied_weights_stay_gathered() -> None:
    """Gradients of the first bucket, of 4 MB, are held as well; it is gathered once."""
    plan = Plan(stage=3, cuts=(1, 2))
    tied = replace(EQUAL, tied=(Tied(4, (1, 3)),))
    assert needed_bytes(tied, plan)[0] == needed_bytes(EQUAL, plan)[0] + 4e6
    assert sent_bytes(tied, plan) == sent_bytes(EQUAL, plan) - 4e6 * 3 / 4


def test_buckets_fill_up_from_the_last_layer_as_in_ddp() -> None:
    assert cuts([5, 1, 1, 3, 2], 4) == (3,)
    assert cuts([5, 1, 3, 3, 2], 4) == (1, 3)
    assert cuts([5, 1, 1, 3, 2], 0) == (1, 2, 3, 4)
    assert cuts([0, 0, 0, 3, 2], 4) == ()  # nothing is sent of the first layers
    assert cuts([5, 1], 9) == ()


@pytest.mark.parametrize("seed", range(20))
def test_planners_take_the_fastest_plan_that_fits(seed: int) -> None:
    problem = random_problem(seed)
    for stage, planner in enumerate(PLANNERS.values()):
        tried = plans(problem, stage)
        least = min(float(needed_bytes(problem, plan).max()) for plan in tried)
        small = replace(problem, memory_bytes=np.full(problem.nodes, least))
        for limited in (problem, small):
            chosen = planner(limited)
            fitting = [plan for plan in tried if not lacking(limited, plan)]
            assert chosen in fitting
            assert iteration_s(problem, chosen) == min(iteration_s(problem, p) for p in fitting)


def test_plan_of_a_model_with_more_layers_is_refused() -> None:
    with pytest.raises(UserError, match="behind 1 to 2"):
        ends_s(EQUAL, Plan(stage=1, cuts=(3,)))


@pytest.mark.parametrize("iterations", [0, -1, None, 1.5, "2"])
def test_iterations_are_counted_in_whole_numbers(iterations: Any) -> None:
    with pytest.raises(UserError, match="iterations is"):
        ends_s(EQUAL, Plan(stage=1), iterations)


@pytest.mark.parametrize("seed", usually(range(30), range(100)))
def test_an_iteration_takes_the_mean_of_a_long_run(seed: int) -> None:
    """Unlike nodes take turns: several iterations are alike, each of its own length."""
    rng = np.random.default_rng(seed)
    nodes, layers = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    problem = Problem(
        forward_s=rng.choice([0.0, 1.0, 10.0], (nodes, layers)),
        backward_s=rng.choice([0.0, 1.0, 10.0], (nodes, layers)),
        update_s=rng.choice([0.0, 1.0], (nodes, layers)),
        param_bytes=nodes * rng.choice([1.0, 10.0], layers),
        links={
            pair: Link(float(rng.choice([8.0, 80.0])), latency_s=float(rng.choice([0.0, 5.0])))
            for pair in permutations(range(nodes), 2)
        },
    )
    plan = random_plan(problem, seed)
    ends = ends_s(problem, plan, 121)
    assert iteration_s(problem, plan) == pytest.approx((ends[120] - ends[60]) / 60, rel=1e-6)

"""Planners of pipelines against all plans, and against what is published."""

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from tests.long import usually
from tests.oracles import pipelines as oracle
from tests.pipelines.problems import drawn, owned, uniform
from workbench.clusters import Link
from workbench.pipelines import Plan, Problem, Stage, Tied, iteration
from workbench.pipelines.bounds import bound_s
from workbench.pipelines.costs import fits
from workbench.pipelines.dynamic import Floor, Times, pipedream_stages
from workbench.pipelines.partitions import Search, partitions, variants
from workbench.pipelines.planners import pipedream, pipeline
from workbench.pipelines.schedules import SCHEDULES, Recompute
from workbench.utils.checks import UserError
from workbench.utils.files import ROOT

Floats = NDArray[np.float64]
MEASURED = Path(os.environ.get("WORKBENCH_MEASURED", ROOT.parent / "shared" / "measured"))

SIZES = [(2, 2), (4, 2), (8, 2), (3, 3), (4, 3), (5, 3), (3, 4), (4, 4)]
"""Layers and nodes; trying all plans takes longer with each."""


def no_plan_is_faster(seed: int, layers: int, nodes: int) -> None:
    """Check that no plan of the oracle's is faster than the planner's, in a problem drawn."""
    rng = np.random.default_rng(seed)
    batch = int(rng.choice([4, 6, 8]))
    problem = drawn(rng, layers=layers, nodes=nodes, batch=batch, equal=bool(seed % 2))
    least_s = oracle.least_s(problem, lambda *given: iteration(*given).total_s)
    try:
        plan = pipeline(problem)
    except UserError:
        assert least_s == float("inf")
        return
    assert fits(problem, plan)
    assert iteration(problem, plan).total_s <= least_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", usually(range(7), range(500)))
def test_no_plan_is_faster(seed: int) -> None:
    no_plan_is_faster(seed, *SIZES[seed % len(SIZES)])


@pytest.mark.parametrize("seed", usually(range(24), range(1000)))
def test_what_leaves_plans_out_is_a_lower_bound(seed: int) -> None:
    """A partition's floor is below its plans' bound, and that below their seconds."""
    rng = np.random.default_rng(seed)
    layers, nodes = SIZES[seed % len(SIZES)]
    problem = drawn(rng, layers=layers, nodes=nodes, batch=6, equal=seed % 3 == 0)
    if seed % 2:
        problem = owned(rng, replace(problem, batch=4))
    search = Search(problem)
    times = Times(search)
    for variant in variants(problem.batch, SCHEDULES):
        floor = Floor(times, problem.batch // variant.microbatches)
        for partition in partitions(problem):
            for plan in search.plans(partition, variant):
                bound = bound_s(problem, plan)
                assert floor(partition) <= bound * (1 + 1e-9)
                if bound < math.inf:  # else a link is missing
                    assert bound <= iteration(problem, plan).total_s * (1 + 1e-9)


def test_a_plan_is_no_slower_than_pipedreams_where_not_all_are_tried() -> None:
    rng = np.random.default_rng(5)
    for rate in (10.0, 100.0, 1000.0):
        problem = drawn(rng, layers=12, nodes=7, batch=16, equal=True)
        problem = replace(problem, needed=None, links=dict.fromkeys(pairs(7), Link(rate)))
        ours, theirs = pipeline(problem), pipedream(problem)
        assert iteration(problem, ours).total_s <= iteration(problem, theirs).total_s


def pairs(nodes: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(nodes) for b in range(nodes) if a != b]


def minibatches(
    forward_s: Floats, backward_s: Floats, weights: Floats, sent: Floats, byte_s: float
) -> Problem:
    """Sixteen equal nodes, and a profile of minibatches of 128 samples."""
    samples, nodes = 128, 16
    return Problem(
        forward_s=np.tile(forward_s / samples, (nodes, 1)),
        backward_s=np.tile(backward_s / samples, (nodes, 1)),
        update_s=np.zeros((nodes, len(weights))),
        param_bytes=weights,
        output_bytes=sent / samples,
        links=dict.fromkeys(pairs(nodes), Link(8 / byte_s)),
        batch=samples,
    )


@pytest.mark.parametrize("bytes_per_s", [1e9, 1.25e9])
def test_pipedreams_planner_has_its_published_plan_of_vgg16(bytes_per_s: float) -> None:
    path = MEASURED / "pipedream_vgg16.csv"
    if not path.exists():
        pytest.skip(
            f"needs PipeDream's published profile of VGG-16, {path}: see WORKBENCH_MEASURED"
        )
    profile = pl.read_csv(path).filter(pl.col("operator") != "Input")
    forward_s, backward_s = (
        profile[f"{way}_ms"].to_numpy() / 1e3 for way in ("forward", "backward")
    )
    weights, sent = (profile[f"{what}_bytes"].to_numpy() for what in ("parameter", "output"))
    problem = minibatches(forward_s, backward_s, weights, sent, 1 / bytes_per_s)
    stages = pipedream_stages(problem)
    assert [replicas for _, _, replicas in stages] == [15, 1]
    assert profile["node"][stages[0][1] - 1] == 32  # the last pooling
    assert profile["operator"][stages[0][1] - 1] == "MaxPool2d"


def test_pipedreams_planner_replicates_convolutions_and_not_large_linear_layers() -> None:
    """Fifteen equal layers of few weights, then one of many: the effect of VGG-16, made up."""
    seconds = np.array([0.02] * 15 + [0.02])
    weights = np.array([1e6] * 15 + [4e8])
    sent = np.array([1e8] * 14 + [1e6, 1e5])
    problem = minibatches(seconds / 3, seconds * 2 / 3, weights, sent, 1e-9)
    assert pipedream_stages(problem) == [(1, 15, 15), (16, 16, 1)]
    plan = pipedream(problem)
    assert [len(stage.nodes) for stage in plan.stages] == [15, 1]


def test_layers_of_a_tied_weight_are_put_on_one_node_where_that_saves_its_gradients() -> None:
    """A first layer with the last one's weight, which takes no time itself."""
    seconds = np.tile([0.0, 1.0, 1.0, 1.0], (3, 1))
    weight = Tied(10_000, (1, 4))
    problem = Problem(
        forward_s=seconds,
        backward_s=2 * seconds,
        update_s=np.zeros((3, 4)),
        param_bytes=np.array([1e4, 1e4, 1e4, 0.0]),
        output_bytes=np.ones(4),
        links=dict.fromkeys(pairs(3), Link(800.0)),
        batch=8,
        tied=(weight,),
    )
    plan = pipeline(problem)
    assert [(stage.first, stage.last, stage.nodes) for stage in plan.stages] == [
        (1, 1, (2,)),
        (2, 2, (0,)),
        (3, 3, (1,)),
        (4, 4, (2,)),
    ]
    apart = pipeline(replace(problem, links=dict.fromkeys(pairs(3), Link(1e9))))
    assert iteration(problem, plan).total_s < iteration(problem, apart).total_s


@pytest.mark.parametrize(("nodes", "layers"), [(2, 2), (6, 12)])
def test_a_plan_is_found_where_only_one_micro_batch_in_flight_fits(nodes: int, layers: int) -> None:
    """Each node has memory for its layers and one sample; larger problems are not tried whole."""

    def needed(first: int, last: int, samples: int, in_flight: int, recompute: Recompute) -> float:
        outputs = last - first + 1
        return float(samples * (in_flight + outputs if recompute else in_flight * outputs))

    problem = Problem(
        forward_s=np.ones((nodes, layers)),
        backward_s=np.ones((nodes, layers)),
        update_s=np.zeros((nodes, layers)),
        param_bytes=np.ones(layers),
        output_bytes=np.ones(layers),
        links=dict.fromkeys(pairs(nodes), Link(1e3)),
        batch=4,
        memory_bytes=np.full(nodes, layers / nodes),
        needed=needed,
    )
    plan = pipeline(problem)
    assert fits(problem, plan)
    assert [stage.nodes for stage in plan.stages] == [(node,) for node in range(nodes)]
    assert (plan.microbatches, set(plan.in_flight), any(plan.recompute)) == (4, {1}, False)


def test_stages_recompute_layer_by_layer_where_only_that_fits() -> None:
    def needed(first: int, last: int, samples: int, in_flight: int, recompute: Recompute) -> float:
        return 1.0 if recompute == "layers" or last - first < 1 else 9.0

    plan = pipeline(uniform(2, 4, needed=needed, memory_bytes=np.ones(2)))
    assert plan.recompute == (False, False)
    slow = uniform(2, 4, needed=needed, memory_bytes=np.ones(2), link=Link(1e-3))
    assert pipeline(slow).recompute == ("layers",)


def test_first_and_last_stage_of_a_node_keep_fewer_micro_batches_where_they_need_to() -> None:
    def needed(first: int, last: int, samples: int, in_flight: int, recompute: Recompute) -> float:
        weights = 50.0 if first == 1 or last == 3 else 0.0
        return 2 * weights * (first > 1 or last == 3) + 10.0 * in_flight * samples

    problem = Problem(
        forward_s=np.ones((2, 3)),
        backward_s=np.ones((2, 3)),
        update_s=np.zeros((2, 3)),
        param_bytes=np.array([50.0, 1.0, 1.0]),
        output_bytes=np.ones(3),
        links=dict.fromkeys(pairs(2), Link(1e3)),
        batch=4,
        tied=(Tied(50, (1, 3)),),
        memory_bytes=np.full(2, 125.0),
        needed=needed,
    )
    plan = pipeline(problem, schedules=("1f1b",), least_stages=3)
    assert fits(problem, plan)
    assert [stage.nodes for stage in plan.stages] == [(1,), (0,), (1,)]
    assert plan.in_flight == (1, 1, 1)


@pytest.mark.parametrize(
    "change",
    [{"tries": 0}, {"tries": "2"}, {"least_stages": 0.5}, {"schedules": ()}, {"schedules": ("x",)}],
)
def test_wrong_limits_of_a_search_are_refused(change: dict[str, Any]) -> None:
    ((name, _),) = change.items()
    with pytest.raises(UserError, match=name.removesuffix("s")):
        pipeline(uniform(2, 2), **change)


def test_memory_of_a_plan_for_more_nodes_is_refused() -> None:
    problem = uniform(2, 2, needed=lambda *of_stage: 1.0, memory_bytes=np.ones(2))
    with pytest.raises(UserError, match="the plan has node 5"):
        fits(problem, Plan(stages=(Stage(1, 2, ((5, 2),)),), microbatches=1))

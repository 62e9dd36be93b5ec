"""ZeRO and the overlapping all-reduce among the methods of training."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.comparison.clusters import clusters
from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.comparison import METHODS, Problem, UnusableError
from workbench.comparison.learning.sgd import Batches
from workbench.comparison.memory import memory_of
from workbench.comparison.methods import EQUAL
from workbench.comparison.table import memory
from workbench.profiles import profile_model

LENET, RESNET = profile_model("lenet5"), profile_model("resnet18")
NAMES = ["all-reduce, overlapping", "zero-1", "zero-2", "zero-3"]


def mesh(nodes: int, bps: float, memory_bytes: float | None = None) -> Cluster:
    alike = [Node(f"n{at}", flops_per_s=1e11, memory_bytes=memory_bytes) for at in range(nodes)]
    return full_mesh(alike, Link(bps, overhead_s=0.001))


@given(cluster=clusters(far=True))
@settings(max_examples=25, deadline=None)
def test_overlapping_all_reduce_is_never_slower_than_a_plain_one(cluster: Cluster) -> None:
    problem = Problem(LENET, cluster, 8)
    try:
        plain = METHODS["all-reduce"].plan(problem).cost
    except UnusableError:
        return
    overlapping = METHODS["all-reduce, overlapping"].plan(problem).cost
    assert overlapping.samples_per_s >= plain.samples_per_s * (1 - 1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nodes", [2, 4])
def test_prediction_is_what_is_simulated_where_nothing_is_shared(name: str, nodes: int) -> None:
    plan = METHODS[name].plan(Problem(RESNET, mesh(nodes, 1e9), 8))
    assert plan.cost.iteration_s == pytest.approx(plan.predicted_s)
    assert plan.cost.samples == 8 * nodes


def test_gradients_travel_beside_the_backward_pass() -> None:
    """At least half of the exchange is hidden where both take about as long."""
    problem = Problem(RESNET, mesh(4, 1e9), 8)
    plain, overlapping = (METHODS[name].plan(problem).cost for name in ("all-reduce", NAMES[0]))
    exchange_s = plain.iteration_s - problem.batch_s(0)
    assert overlapping.iteration_s < plain.iteration_s - exchange_s / 2


def test_model_that_fits_on_no_node_fits_on_several_together() -> None:
    """Each later stage needs less; the last one fits where a whole model does not."""
    whole = memory_of("resnet18", None, None)
    assert whole is not None
    room = whole(8) - 0.3 * Problem(RESNET, mesh(8, 1e9), 8).model_bytes
    problem = Problem(RESNET, mesh(8, 1e9, room), 8, memory=whole)
    rows = {name: memory(problem, METHODS[name].plan(problem)) for name in ("all-reduce", *NAMES)}
    assert [row["fits"] for row in rows.values()] == [False, False, False, True, True]
    assert rows["zero-2"]["memory_bytes"] <= room < rows["zero-1"]["memory_bytes"]


def test_in_a_comparison_of_trainings_all_stages_share_the_batches_of_an_all_reduce() -> None:
    problem = Problem(LENET, mesh(3, 1e8), 8)
    methods = [METHODS[name] for name in ("all-reduce", *NAMES)]
    drawn = {str(Batches.of(method, method.plan(problem), problem)) for method in methods}
    assert len(drawn) == 1
    assert {method.update for method in methods} == {EQUAL}

"""OLPB's scan as a method of training: its own cost model, and its programs on the cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.comparison import METHODS, Problem, UnusableError
from workbench.comparison.methods.scan import GROUPS
from workbench.olpb.costs.stored_passes import stored_work
from workbench.profiles import profile_model

PROFILE = profile_model("lenet5")


def mesh(count: int = 3, link: Link | None = None, memory_bytes: float | None = None) -> Cluster:
    nodes = [
        Node(f"n{at}", flops_per_s=1e9 * (1 + at), samples=100, memory_bytes=memory_bytes)
        for at in range(count)
    ]
    return full_mesh(nodes, link or Link(1e15))


scans = pytest.mark.parametrize("name", GROUPS)


@scans
@pytest.mark.parametrize("count", [2, 3, 5])
def test_programs_take_as_long_as_the_cost_model_where_messages_take_no_time(
    name: str, count: int
) -> None:
    plan = METHODS[name].plan(Problem(PROFILE, mesh(count), 8))
    assert plan.cost.iteration_s == pytest.approx(plan.predicted_s, rel=1e-6)


@scans
def test_latency_of_a_message_counts_in_both(name: str) -> None:
    problem = Problem(PROFILE, mesh(2, Link(1e15, latency_s=5.0)), 8)
    quick = METHODS[name].plan(Problem(PROFILE, mesh(2), 8)).cost.iteration_s
    plan = METHODS[name].plan(problem)
    assert plan.predicted_s is not None
    assert plan.predicted_s > quick + 4
    # in the programs, nodes are told to begin as well
    assert plan.cost.iteration_s > plan.predicted_s


@scans
def test_work_is_that_of_all_moves_and_gradients(name: str) -> None:
    problem = Problem(PROFILE, mesh(2), 8)
    plan = METHODS[name].plan(problem)
    rate = {node: 1e9 * (1 + node) for node in range(2)}
    flops = sum(busy * rate[node] for node, busy in plan.cost.busy_s.items())
    table = PROFILE.table
    alone = 8 * float(table["forward_flops"].sum()) + float(table["param_bytes"].sum()) / 4 * 2
    works = [
        stored_work("lenet5", unit, level, 2, scan)
        for unit, level in GROUPS[name]
        for scan in ("hillis_steele", "blelloch")
    ]
    found = [8 * (sum(one.move_flops) + sum(one.after_flops)) for one in works]
    assert any(flops == pytest.approx(one + alone) for one in found)


@scans
def test_only_the_owner_s_samples_are_learnt_from(name: str) -> None:
    problem = Problem(PROFILE, mesh(3), 8)
    plan = METHODS[name].plan(problem)
    assert tuple(plan.learns_from) == (2,)
    assert "samples of n2" in plan.assumes[0]


@scans
def test_jacobians_that_no_node_holds_are_refused_with_their_size(name: str) -> None:
    problem = Problem(PROFILE, mesh(3, memory_bytes=1e3), 8)
    with pytest.raises(UnusableError, match=r"Jacobians takes [\d.]+ [kM]?B"):
        METHODS[name].plan(problem)


@scans
def test_a_model_of_ones_own_is_refused(name: str) -> None:
    for own in ("mine", "resnet18"):
        profile = replace(PROFILE, name=own)
        with pytest.raises(UnusableError, match="only for the zoo's models"):
            METHODS[name].plan(Problem(profile, mesh(), 8))
    with pytest.raises(UnusableError, match="second node"):
        METHODS[name].plan(Problem(PROFILE, Cluster([Node("a", flops_per_s=1e9)]), 8))

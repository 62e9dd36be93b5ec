"""Recomputation of chains against all ways to do it; stages of other dataflows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.graphs.modules import Calling
from tests.graphs.test_functional import of_zoo
from tests.memory.flows import chain as forward_chain
from tests.memory.flows import flows, training_chains
from tests.memory.test_arena import check
from tests.oracles.recomputation import least_work
from workbench.graphs import trace
from workbench.memory.arena import Arena
from workbench.memory.budgets import less
from workbench.memory.checkpointing import checkpointed
from workbench.memory.dataflow import Dataflow, Step, dataflow
from workbench.memory.lifetimes import lifetimes
from workbench.memory.planning import plan_memory
from workbench.memory.recomputation import BudgetError, cost, recomputing
from workbench.memory.stages import stages_of

Way = Callable[[Dataflow, Sequence[int], int], Dataflow]
SHARES = st.floats(0.3, 1.0)


def test_no_step_runs_again_once_its_weight_is_updated() -> None:
    """Of a weight by the first operator, and one that two operators read."""
    parts = {"w": nn.Parameter(torch.ones(8)), "f": nn.Linear(8, 16)}
    module = Calling(lambda m, x: m.f(x * m.w) + m.f.weight.sum(1), **parts)
    graph = trace(module, (8,), 7, True)
    whole = plan_memory(graph, "none").total_bytes
    for budget in range(3 * whole // 5, whole, 64):
        with contextlib.suppress(BudgetError):
            plan_memory(graph, "none", budget)  # certified: a PlanError if one does


def bound(flow: Dataflow) -> int:
    return lifetimes(flow, range(len(flow.steps))).bound_bytes


def within(way: Way, flow: Dataflow, budget: int) -> float | None:
    """Work of what a way finds, which keeps the budget and the order of what is needed."""
    try:
        found = way(flow, range(len(flow.steps)), budget)
    except BudgetError:
        return None
    assert bound(found) <= budget
    assert {one.operator for one in found.steps} == {one.operator for one in flow.steps}
    for number, one in enumerate(found.steps):
        assert all(found.maker[buffer] < number for buffer in one.reads)
    return float(cost(found).sum())


@given(training_chains(6, alike=True), SHARES)
def test_the_optimum_of_layers_that_are_alike(flow: Dataflow, share: float) -> None:
    budget = int(share * bound(flow))
    assert within(checkpointed, flow, budget) == least_work(flow, budget)


@given(training_chains(4), SHARES)
def test_no_way_is_better_than_the_best_of_all(flow: Dataflow, share: float) -> None:
    budget = int(share * bound(flow))
    least = least_work(flow, budget)
    for way in (checkpointed, recomputing):
        found = within(way, flow, budget)
        assert found is None or (least is not None and found >= least)


@settings(max_examples=40)
@given(flows(), st.floats(0.2, 1.0))
def test_any_dataflow_is_a_chain_of_stages_or_none(flow: Dataflow, share: float) -> None:
    budget = int(share * bound(flow))
    assert stages_of(flow, range(len(flow.steps))).stages == ()
    assert within(checkpointed, flow, budget) is None


@given(training_chains(6), st.integers(0, 4), SHARES)
def test_steps_that_nobody_needs_run_once(flow: Dataflow, at: int, share: float) -> None:
    steps = list(flow.steps)
    at = min(at, sum(one.phase == "forward" for one in steps) - 1)
    idle = Step("idle", "forward", steps[at].makes[:1], (len(flow.sizes),))
    write = Step("write", "update", (), (), after=(at + 1,))
    steps[at + 1 : at + 1] = [idle, write]
    numbered = tuple(replace(one, operator=number) for number, one in enumerate(steps))
    found = replace(flow, steps=numbered, sizes=np.append(flow.sizes, 1))
    within(checkpointed, found, int(share * bound(found)))


def test_inference_has_no_stages() -> None:
    with pytest.raises(BudgetError, match="no plan of stages"):
        checkpointed(forward_chain(4, 4), [0, 1], 100)


@pytest.mark.parametrize(("name", "least"), [("cifarnet", 3), ("resnet20_cifar", 9)])
def test_stages_of_networks(name: str, least: int) -> None:
    """Each step is in one stage; blocks with branches are stages, too."""
    flow = dataflow(trace(name, batch_size=8, training=True))
    stages = stages_of(flow, range(len(flow.steps))).stages
    assert len(stages) >= least
    parts = [stage.steps for stage in stages]
    steps = [step for part in parts for step in (*part["forward"], *part["backward"])]
    assert sorted(steps) == list(range(len(flow.steps)))
    for part in parts:
        assert {*part["through"], *part["again"], *part["inner"]} <= {*part["forward"]}


def test_the_better_of_both_ways_comes_first() -> None:
    flow = dataflow(trace("resnet20_cifar", batch_size=8, training=True))
    order = range(len(flow.steps))
    budget = int(0.6 * bound(flow))
    found = less(flow, order, budget)
    works = [float(cost(one).sum()) for one in found]
    assert works == sorted(works)
    each = [within(way, flow, budget) for way in (checkpointed, recomputing)]
    assert works[0] == min(one for one in each if one is not None)


def test_what_draws_random_numbers_runs_once() -> None:
    """Dropout lies within; what it makes stays, and its steps keep their order."""
    layers = (torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Dropout(0.3))
    module = torch.nn.Sequential(*layers, *layers, *layers, *layers)
    graph = trace(module, (64,), 512, training=True)
    flow = dataflow(graph)
    order = range(len(flow.steps))
    random = [at for at, one in enumerate(flow.steps) if one.is_random]
    assert {*random} <= stages_of(flow, order).once
    found = checkpointed(flow, order, int(0.9 * bound(flow)))
    assert len(found.steps) > len(flow.steps)
    assert [one.operator for one in found.steps if one.is_random] == [
        flow.steps[at].operator for at in random
    ]
    given = (torch.randn(512, 64), torch.zeros(512, dtype=torch.int64))
    check(graph, Arena(plan_memory(found, order="traced", time_limit_s=0.1)), given)


@pytest.mark.parametrize("name", ["cifarnet", "resnet20_cifar"])
def test_stages_that_run_again_give_the_same(name: str) -> None:
    module, x, y = of_zoo(name, 8)
    graph = trace(module, (3, 32, 32), 8, training=True)
    flow = dataflow(graph)
    found = checkpointed(flow, range(len(flow.steps)), int(0.97 * bound(flow)))
    arena = Arena(plan_memory(found, order="traced", time_limit_s=0.1))
    assert arena.plan.recomputed
    check(graph, arena, (x, y))

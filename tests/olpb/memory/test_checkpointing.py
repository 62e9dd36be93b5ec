"""Recomputation of chains against all ways to do it; stages of what is no simple chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.olpb.memory.flows import chain as forward_chain
from tests.olpb.memory.flows import flows, training_chains
from tests.oracles.recomputation import least_work
from workbench.graphs import trace
from workbench.olpb.memory.checkpointing import checkpointed
from workbench.olpb.memory.dataflow import Dataflow, dataflow
from workbench.olpb.memory.lifetimes import lifetimes
from workbench.olpb.memory.plan import MemoryPlan, certify
from workbench.olpb.memory.planning import less, plan_memory
from workbench.olpb.memory.recomputation import BudgetError, cost, recomputing
from workbench.olpb.memory.stages import chain

Way = Callable[[Dataflow, Sequence[int], int], Dataflow]
SHARES = st.floats(0.3, 1.0)


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


@settings(max_examples=60, deadline=None)
@given(training_chains(6, alike=True), SHARES)
def test_the_optimum_of_layers_that_are_alike(flow: Dataflow, share: float) -> None:
    budget = int(share * bound(flow))
    assert within(checkpointed, flow, budget) == least_work(flow, budget)


@settings(max_examples=60, deadline=None)
@given(training_chains(4), SHARES)
def test_no_way_is_better_than_the_best_of_all(flow: Dataflow, share: float) -> None:
    budget = int(share * bound(flow))
    least = least_work(flow, budget)
    for way in (checkpointed, recomputing):
        found = within(way, flow, budget)
        assert found is None or (least is not None and found >= least)



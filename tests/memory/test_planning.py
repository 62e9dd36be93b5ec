"""The same for every planner: certified plans, not below the bound; what a certificate finds."""

from __future__ import annotations

import doctest
import importlib
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.memory.flows import chain, flows
from tests.refusals import refusals
from workbench.memory.dataflow import Dataflow, Step
from workbench.memory.lifetimes import lifetimes
from workbench.memory.orders import ORDERS
from workbench.memory.plan import MemoryPlan, PlanError, certify
from workbench.memory.planning import PLANNERS, plan_memory
from workbench.memory.recomputation import BudgetError, cost, least_bytes, unrolled
from workbench.memory.stored_dataflows import stored_dataflow


@settings(max_examples=40)
@given(flows(), st.sampled_from(sorted(ORDERS)))
@pytest.mark.parametrize("planner", PLANNERS)
def test_plans_are_certified_and_not_below_the_bound(
    planner: str, flow: Dataflow, order: str
) -> None:
    plan = plan_memory(flow, planner, order=order, rounds=0)
    certify(plan)
    assert plan.bound_bytes <= plan.total_bytes <= flow.sizes.sum()
    life = plan.lifetimes
    wanted = {"offset": plan.offsets, "bytes": flow.sizes, "first": life.first, "last": life.last}
    for name, column in wanted.items():
        assert plan.table[name].to_list() == column.tolist()


@settings(max_examples=40)
@given(flows())
def test_ours_is_never_above_another(flow: Dataflow) -> None:
    ours = plan_memory(flow, rounds=0).total_bytes
    assert ours <= min(plan_memory(flow, name, rounds=0).total_bytes for name in PLANNERS)


def test_only_the_planner_none_keeps_all() -> None:
    assert plan_memory(chain(4, 4), "none").total_bytes == 8
    assert plan_memory(chain(4, 4), "parent").total_bytes == 4
    assert plan_memory(chain(4, 4)).total_bytes == 4


@given(flows(), st.data())
def test_a_certificate_refuses_what_is_wrong(flow: Dataflow, data: st.DataObject) -> None:
    """A buffer that is moved onto another that is alive, or that ends too early."""
    plan = plan_memory(flow, "none")
    life = plan.lifetimes
    used = np.flatnonzero((flow.sizes > 0) & (life.last > life.first))
    assume(len(used) > 1)
    one, other = data.draw(st.permutations(used.tolist()))[:2]
    offsets = plan.offsets.copy()
    offsets[one] = offsets[other]
    wrong = MemoryPlan("wrong", life, offsets)
    ends = offsets + flow.sizes
    if any(
        life.first[a] < life.last[b]
        and life.first[b] < life.last[a]
        and offsets[a] < ends[b]
        and offsets[b] < ends[a]
        for a, b in combinations(used, 2)
    ):
        with pytest.raises(PlanError, match="overlap"):
            certify(wrong)
    else:
        certify(wrong)
    shorter = life.last.copy()
    shorter[one] -= 1
    with pytest.raises(PlanError):
        certify(MemoryPlan("wrong", replace(life, last=shorter), plan.offsets))


def test_a_larger_budget_is_no_worse() -> None:
    flow = stored_dataflow("resnet20_cifar", 8, training=True, optimised=False)
    whole = plan_memory(flow, rounds=0).total_bytes
    smaller, larger = (
        cost(plan_memory(flow, budget=int(share * whole)).flow).sum() for share in (0.5, 0.525)
    )
    assert larger <= smaller


def test_a_certificate_refuses_to_run_again_what_must_not() -> None:
    """Random numbers, and what reads something that is written over in between."""
    draw, other = Step("draw", "forward", (), (0,)), Step("read", "forward", (0,), (1,), operator=1)
    write = Step("write", "forward", (), (2,), after=(1,), operator=2)
    flow = Dataflow((draw, other, write), np.array([4, 4, 4]), frozenset({1, 2}))
    for first, ran, reason in (
        (replace(draw, is_random=True, operator=0), [0, 0, 1, 2], "step 0 runs again"),
        (replace(draw, operator=0), [0, 1, 2, 0, 1], "step 2 runs before"),
    ):
        again = unrolled(replace(flow, steps=(first, other, write)), ran)
        life = lifetimes(again, range(len(again.steps)))
        with pytest.raises(PlanError, match=reason):
            certify(MemoryPlan("wrong", life, np.arange(len(again.sizes)) * 4))


@given(flows(), st.floats(0.2, 1.0))
def test_within_a_budget(flow: Dataflow, share: float) -> None:
    """What is computed again costs more, and the same is returned; or the least is named."""
    whole = plan_memory(flow, rounds=0)
    budget = int(share * whole.total_bytes)
    try:
        plan = plan_memory(flow, budget=budget, rounds=0)
    except BudgetError as error:
        found = str(error)
        assert "no plan within" in found
        return
    certify(plan)
    assert plan.total_bytes <= budget
    assert budget >= least_bytes(flow)
    ran = [flow.steps[plan.flow.steps[step].operator] for step in plan.order]
    assert {one.operator for one in ran} == set(range(len(flow.steps)))
    assert len(plan.recomputed) == len(ran) - len(flow.steps)
    assert cost(plan.flow).sum() >= cost(flow).sum()
    assert len(plan.flow.kept) == len(flow.kept)


test_refused = refusals(
    plan_memory,
    {"graph": chain(4, 4)},
    {
        "planner": {"Did you mean 'pebble'": ["peble"]},
        "order": {"order": ["fastest"], r"a step of the order is 0\.0": [[0.0, 1.0]]},
        "alignment": {"alignment is": [0, -64]},
        "rounds": {"rounds is -1": [-1]},
        "budget": {"a single step needs 4": [3]},
    },
)


def test_anything_but_a_graph_is_refused() -> None:
    with pytest.raises(TypeError, match="graph is 'lenet5'"):
        plan_memory("lenet5")  # type: ignore[arg-type]


def test_an_order_may_be_any_iterable() -> None:
    assert plan_memory(chain(4, 4), order=iter((0, 1))).order == (0, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("module", ["memory", "memory.fitting", "memory.packing", "zoo"])
def test_examples_give_what_they_say(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"workbench.{module}")).failed == 0

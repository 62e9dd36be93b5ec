"""Work against bytes: plans within each budget, never more work for more memory, repeatable."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.memory.flows import chain, training_chains
from tests.memory.tracing.modules import Calling
from tests.oracles.checkmate import checkmate
from tests.oracles.recomputation import least_work, work
from tests.refusals import refusals
from workbench.memory import budgets, trace
from workbench.memory.budgets import POINTS, trade
from workbench.memory.chen import chen
from workbench.memory.dataflow import Dataflow, Step
from workbench.memory.lifetimes import lifetimes
from workbench.memory.orders import least_bound
from workbench.memory.plan import MemoryPlan, certify
from workbench.memory.planning import least_budget, plan_memory
from workbench.memory.recomputation import BudgetError, cost, least_bytes, recomputing
from workbench.memory.stored_dataflows import stored_dataflow


def test_the_curve_of_a_network() -> None:
    flow = stored_dataflow("resnet20_cifar", 8, training=True)
    frame = trade(flow)
    assert len(frame) == POINTS
    assert frame["reason"].is_null().all()
    assert (frame["total_bytes"] <= frame["budget_bytes"]).all()
    assert (frame["bound_bytes"] <= frame["total_bytes"]).all()
    assert frame["budget_bytes"].is_sorted(descending=True)
    assert frame["extra_work"].is_sorted()
    assert frame["extra_work"][0] == frame["recomputed"][0] == frame["extra_flops"][0] == 0
    assert frame["extra_work"][-1] > 0
    assert frame["total_bytes"][-1] < frame["total_bytes"][0] / 2
    again = frame["budget_bytes"][3, 6]
    some = frame.filter(pl.col("budget_bytes").is_in(again.implode()))
    assert trade(flow, again.to_list())["total_bytes"].equals(some["total_bytes"])


def test_budgets_without_a_plan_keep_their_reason() -> None:
    frame = trade(trace("lenet5", batch_size=8, training=True), (10**9, 1000))
    assert frame["budget_bytes"].to_list() == [10**9, 1000]
    assert frame["reason"][0] is None
    assert "no plan within 1 kB" in frame["reason"][1]
    assert frame["total_bytes"][1] is None


def bound(flow: Dataflow) -> int:
    return lifetimes(flow, range(len(flow.steps))).bound_bytes


@given(training_chains(4), st.floats(0.3, 1.0))
def test_no_recomputation_is_better_than_the_best_of_all(flow: Dataflow, share: float) -> None:
    order, once = range(len(flow.steps)), float(cost(flow).sum())
    with contextlib.suppress(BudgetError):
        budget = int(share * bound(flow))
        found = recomputing(flow, order, budget)
        assert bound(found) <= budget
        least = least_work(flow, budget)
        assert least is not None
        assert cost(found).sum() >= least
    for segments in (None, 1, 2):
        found = chen(flow, order, segments)
        life = lifetimes(found, range(len(found.steps)), overwriting=False)
        certify(MemoryPlan("chen", life, np.cumsum(life.sizes) - life.sizes))
        least = least_work(flow, bound(found))
        assert least is not None
        assert 2 * once >= cost(found).sum() >= least


@settings(max_examples=15)
@given(training_chains(4, alike=True), st.floats(0.3, 1.0))
def test_the_integer_programme_is_the_best_of_all(flow: Dataflow, share: float) -> None:
    budget = int(share * bound(flow))
    least = least_work(flow, budget)
    if least is None:
        with pytest.raises(BudgetError, match="is possible"):
            checkmate(flow, budget)
        return
    best = checkmate(flow, budget)
    assert bound(best) <= budget
    assert cost(best).sum() == pytest.approx(least, rel=1e-12)
    with contextlib.suppress(BudgetError):
        assert cost(recomputing(flow, range(len(flow.steps)), budget)).sum() >= least


def test_segments_of_a_long_chain_need_the_root_of_its_bytes() -> None:
    """Chen et al., Sec. 3: n layers alike, in 2 √n of n buffers instead of n."""
    count = 100
    forward = [Step("f", "forward", (at - 1,) if at else (), (at,)) for at in range(count)]
    backward = [
        Step("b", "backward", (count - 1 - at, *((count + at - 1,) if at else ())), (count + at,))
        for at in range(count)
    ]
    steps = tuple(replace(one, operator=at) for at, one in enumerate([*forward, *backward]))
    flow = Dataflow(steps, np.ones(2 * count, np.int64), frozenset({2 * count - 1}))
    found = chen(flow, range(2 * count))
    assert bound(flow) >= count
    assert bound(found) <= 2 * 10 + 3
    assert len(found.steps) == 3 * count - 10


def test_no_step_runs_again_once_its_weight_is_updated() -> None:
    """Of a weight by the first operator, and one that two operators read."""
    parts = {"w": nn.Parameter(torch.ones(8)), "f": nn.Linear(8, 16)}
    module = Calling(lambda m, x: m.f(x * m.w) + m.f.weight.sum(1), **parts)
    graph = trace(module, (8,), 7, True)
    whole = plan_memory(graph, "none").total_bytes
    for budget in range(3 * whole // 5, whole, 64):
        with contextlib.suppress(BudgetError):
            plan_memory(graph, "none", budget)  # certified: a PlanError if one does


@settings(max_examples=25)
@given(training_chains(4))
def test_the_least_is_reached_and_nothing_below_can_be(flow: Dataflow) -> None:
    least = least_budget(plan_memory(flow, order=least_bound(flow)))
    assert least_bytes(flow) <= least
    (row,) = trade(flow, (least,)).iter_rows(named=True)
    assert row["total_bytes"] <= least
    best = least_work(flow, least)
    assert best is not None
    once = sum(work(flow, step) for step in range(len(flow.steps)))
    assert row["extra_work"] >= best / once - 1 - 1e-9


def test_what_fits_a_smaller_budget_fits_a_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = stored_dataflow("resnet20_cifar", 8, training=True)
    (row,) = trade(flow, (3_000_000,)).rows()

    def refusing(flow: Dataflow, *, budget: int | None = None, **options: Any) -> MemoryPlan:
        if budget is not None and budget > 3_000_000:
            raise BudgetError("none was found")
        return plan_memory(flow, budget=budget, **options)

    monkeypatch.setattr(budgets, "plan_memory", refusing)
    assert trade(flow, (3_000_000, 3_500_000)).rows() == [(3_500_000, *row[1:]), row]


def test_a_chain_that_overwrites_itself_has_one_budget() -> None:
    frame = trade(chain(4, 4, 4))
    assert frame.select("total_bytes", "extra_work").rows() == [(4, 0.0)]


test_refused = refusals(
    trade,
    {"graph": chain(4, 4)},
    {"budgets": {"budget is -1": [(-1,)], "give bytes": [{5, 6}]}},
)

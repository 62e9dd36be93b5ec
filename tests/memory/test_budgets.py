"""Work against bytes: plans within each budget, never more work for more memory, repeatable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings

from tests.memory.flows import chain, training_chains
from tests.oracles.recomputation import least_work, work
from tests.refusals import refusals
from workbench.graphs import trace
from workbench.memory.budgets import CLOSE, POINTS, least_reachable, trade, within
from workbench.memory.dataflow import Dataflow
from workbench.memory.plan import MemoryPlan
from workbench.memory.recomputation import BudgetError, least_bytes
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


@settings(max_examples=25)
@given(training_chains(4))
def test_the_least_is_reached_and_nothing_below_can_be(flow: Dataflow) -> None:
    least = least_reachable(flow)
    assert least_bytes(flow) <= least
    (row,) = trade(flow, (least,)).iter_rows(named=True)
    assert row["total_bytes"] <= max(least, (1 + CLOSE) * least + 1) or row["reason"]
    best = least_work(flow, least)
    if row["extra_work"] is not None and best is not None:
        once = sum(work(flow, step) for step in range(len(flow.steps)))
        assert row["extra_work"] >= best / once - 1 - 1e-9


def test_what_fits_a_smaller_budget_fits_a_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = stored_dataflow("resnet20_cifar", 8, training=True)
    (row,) = trade(flow, (3_000_000,)).rows()

    def refusing(
        flow: Dataflow, order: Sequence[int], budget_bytes: int, *rest: Any, **options: Any
    ) -> MemoryPlan:
        if budget_bytes > 3_000_000:
            raise BudgetError("none was found")
        plan: MemoryPlan = within(flow, order, budget_bytes, *rest, **options)
        return plan

    monkeypatch.setattr("workbench.memory.budgets.within", refusing)
    assert trade(flow, (3_000_000, 3_500_000)).rows() == [(3_500_000, *row[1:]), row]


def test_a_chain_that_overwrites_itself_has_one_budget() -> None:
    frame = trade(chain(4, 4, 4))
    assert frame.select("total_bytes", "extra_work").rows() == [(4, 0.0)]


test_refused = refusals(
    trade,
    {"graph": chain(4, 4)},
    {"budgets": {"budget is -1": [(-1,)], "give bytes": [{5, 6}]}},
)

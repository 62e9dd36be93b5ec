"""The survey that the command prints."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
import torch

from workbench.memory import recomputation
from workbench.memory.planning import PLANNERS, plan_memory
from workbench.memory.process import needs
from workbench.memory.recomputation import BudgetError, least_bytes
from workbench.memory.report import ROOFLINE_ERROR, price, survey
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.utils.checks import parse_bytes
from workbench.utils.files import ROOT
from workbench.utils.numbers import bytes_as_text


def test_a_survey_has_the_plans_of_all_planners() -> None:
    found = survey("cifarnet", batch_size=16, training=True)
    assert list(found.plans) == list(PLANNERS)
    flow = stored_dataflow("cifarnet", 16, training=True)
    for name, plan in found.plans.items():
        assert plan.total_bytes == plan_memory(flow, name).total_bytes
    assert found.bound_bytes == found.plans["workbench"].bound_bytes
    assert found.plans["workbench"].total_bytes <= found.plain_bytes


def test_needs_and_bound_are_of_the_named_planner_whatever_the_order() -> None:
    found = survey("lenet5", batch_size=8, training=True)
    names = sorted(found.plans, key=lambda name: name == "none")
    turned = replace(found, plans={name: found.plans[name] for name in names})
    wanted = needs(found.plans["workbench"], workspace_bytes=found.workspace_bytes)
    assert turned.needs == found.needs == wanted
    assert turned.bound_bytes == found.plans["workbench"].bound_bytes
    alone = survey("lenet5", batch_size=8, training=True, planner="none")
    assert alone.needs.block == alone.plans["none"].total_bytes + 64


def test_a_budget_is_kept_and_its_price_named() -> None:
    whole = survey("resnet20_cifar", batch_size=8, training=True, planner="workbench")
    budget = whole.needs.total * 3 // 5
    found = survey(
        "resnet20_cifar", batch_size=8, training=True, planner="workbench", budget=budget
    )
    assert found.budgeted is not None
    assert found.needs.total <= budget
    assert re.search(r"takes \d+ % to \d+ % longer \(estimated .* not timed\)", price(found))


def test_recorded_steps_took_no_longer_than_the_range_says() -> None:
    frame = pl.read_parquet(
        ROOT / "data" / "recorded" / "olpb" / "trade_times" / "trade_times.parquet"
    )
    some = frame.filter(pl.col("reason").is_null())
    whole = some.filter(pl.col("share") == 1).select(
        "model", once="arena_s", estimated="predicted_s"
    )
    error = some.join(whole, on="model").select(
        pl.col("arena_s") / pl.col("once") - pl.col("predicted_s") / pl.col("estimated")
    )
    assert ROOFLINE_ERROR - 0.01 < error.to_series().max() <= ROOFLINE_ERROR  # type: ignore[operator]


def test_a_module_of_ones_own_is_surveyed() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    found = survey(module, (8,), batch_size=4, planner="pebble")
    assert found.flow.held_bytes("weight") == 4 * (8 * 8 + 8 + 8 * 2 + 2)
    assert found.flow.held_bytes("input") == 4 * 4 * 8


def test_what_no_plan_can_meet_is_refused_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputation, "recomputing", None)
    flow = stored_dataflow("resnet20_cifar", 8, training=True)
    needed = bytes_as_text(least_bytes(flow), up=True)
    with pytest.raises(BudgetError, match=f"a single step needs {needed}"):
        plan_memory(flow, budget=least_bytes(flow) - 1)


@pytest.mark.parametrize(
    ("model", "batch_size", "planner", "optimizer", "megabytes"),
    [
        ("resnet20_cifar", 8, "workbench", "sgd", 5.8),
        pytest.param("resnet20_cifar", 4, "pebble", "adam", 7.0, marks=pytest.mark.long),
        pytest.param("cifarnet", 16, "pebble", "adam", 38.356, marks=pytest.mark.long),
        ("lenet5", 32, "pebble", "sgd", 4.0),
        ("lenet5", 8, "workbench", "sgd", 0.001),
    ],
)
def test_budgets_that_a_refusal_names_can_be_met(
    model: str, batch_size: int, planner: str, optimizer: str, megabytes: float
) -> None:
    asked: dict[str, Any] = {
        "batch_size": batch_size,
        "training": True,
        "planner": planner,
        "optimizer": optimizer,
    }
    refused = survey(model, **asked, budget=round(1e6 * megabytes))
    assert refused.plans
    assert refused.budgeted is None
    assert re.search("cannot be met: at least .* MB", refused.refusal)
    _, *named = map(parse_bytes, re.findall(r"[\d.]+ [kM]?B|\d+ bytes", refused.refusal))
    assert named == sorted(named)
    for budget in named:
        found = survey(model, **asked, budget=budget)
        assert not found.refusal
        assert found.needs.total <= budget

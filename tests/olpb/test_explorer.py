"""OLPB's explorer: the picture of a plan, and seconds in both countings."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count
from typing import Any

import polars as pl
import pytest

from workbench.memory.orders import least_bound
from workbench.memory.planning import plan_memory
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.olpb import explorer
from workbench.olpb.costs.arithmetic import as_arithmetic_costs, network_elements
from workbench.olpb.costs.backward import plan
from workbench.olpb.explorer import ARITHMETIC, PAPER, Setting
from workbench.olpb.paper.testbed import variant

SMALL = Setting(model="lenet5", batch_size=4)


def title(setting: Setting) -> list[str]:
    memory: dict[str, Any] = explorer.draw(setting)["vconcat"][0]
    said = memory["title"]
    return [said] if isinstance(said, str) else said


def seconds(setting: Setting, method: str, counting: str) -> float:
    found = explorer.table(setting).filter(method=method, counting=counting)
    return float(found["backward_s"].item())


def test_the_title_tells_the_plan() -> None:
    flow = stored_dataflow("lenet5", 4, True)
    found = plan_memory(flow, order=least_bound(flow))
    assert found.total_bytes == found.bound_bytes
    assert title(SMALL)[0] == "LeNet-5, a step of training, batch 4"
    assert title(SMALL)[1] == f"block {found.total_bytes / 1e6:.3g} MB, workbench"
    assert title(SMALL)[2] == f"dashed: bound {found.bound_bytes / 1e6:.3g} MB"


def test_the_picture_is_the_same_on_a_slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Setting(model="lenet5", batch_size=3)
    for setting in (Setting(batch_size=3, budget_percent=60), small):
        drawn = explorer.draw(setting)
        explorer._plan.cache_clear()
        explorer._memory.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(time, "perf_counter", count().__next__)  # a second a look
            assert explorer.draw(setting) == drawn


def test_a_budget_is_of_the_plans_own_bytes() -> None:
    whole = replace(SMALL, model="resnet20_cifar")
    half = replace(whole, budget_percent=50)
    block, within = (float(title(one)[1].split()[1]) for one in (whole, half))
    assert within <= block / 2
    assert title(replace(SMALL, budget_percent=1)) == ["No plan"]


def test_a_plan_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer.draw(SMALL)
    monkeypatch.setattr(explorer, "plan_memory", None)
    explorer.draw(replace(SMALL, workers=3, delay_factor=7.0))


def test_seconds_as_the_paper_counts_are_the_testbeds() -> None:
    testbed = variant(nodes=6, batch_size=4)
    setting = replace(SMALL, workers=6, levels=3)
    olpb = testbed.timing("lenet5", "olpb_l3").seconds
    assert seconds(setting, "OLPB, l = 3", PAPER) == pytest.approx(olpb)
    assert seconds(setting, "BPPSA", PAPER) == testbed.backward_s("lenet5", "bppsa")
    assert seconds(setting, "DPB", PAPER) == pytest.approx(testbed.backward_s("lenet5", "dpb"))


def test_by_arithmetic_more_than_the_products_are_counted_nowhere() -> None:
    elements = network_elements("lenet5", 1, "operator", 2)
    work = as_arithmetic_costs(plan(len(elements), 32, "hillis_steele"), elements)
    found = explorer.table(SMALL).filter(method="OLPB, l = 2", counting=ARITHMETIC)
    assert found["flops"].item() == 4 * (sum(work.move_flops) + sum(work.after_flops))
    alone = explorer.table(SMALL).filter(method="one node", counting=ARITHMETIC)
    assert alone["flops"].item() < found["flops"].item()


@pytest.mark.parametrize("model", ["lenet5", "mask_rcnn"])
def test_every_method_has_seconds_in_both_countings(model: str) -> None:
    frame = explorer.table(Setting(model=model, workers=1))
    assert frame["backward_s"].null_count() == 0
    assert frame.filter(pl.col("backward_s") <= 0).is_empty()
    assert len(frame) == 8

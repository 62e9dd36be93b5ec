"""Charts of a comparison, and its explorer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.comparison.clusters import at_home, home
from tests.long import usually
from tests.test_explorers import settings
from workbench import figures
from workbench.comparison import Problem, charts, compare, explorer
from workbench.comparison.memory import memory_of
from workbench.comparison.table import KINDS
from workbench.profiles import profile_model
from workbench.widgets import controls

SETTING = explorer.Setting(model="lenet5")


def test_every_method_that_can_be_used_has_a_mark() -> None:
    frame = at_home(may_leave=False).frame
    drawn = charts.rates(frame, ["LeNet-5"]).to_dict()
    (rows,) = drawn["datasets"].values()
    assert len(rows) == frame["samples_per_s"].count()
    assert {row["kind"] for row in rows} == set(KINDS)
    kinds = [KINDS.index(row["kind"]) for row in rows]
    assert kinds == sorted(kinds)


def test_methods_that_do_not_fit_have_no_mark_and_win_nowhere() -> None:
    """Boards without the memory: only the edge server has it."""
    cluster = home(may_leave=True, memory_bytes=1e5)
    frame = compare("lenet5", cluster).frame
    fit = set(frame.filter(pl.col("fits").fill_null(True) & pl.col("reason").is_null())["method"])
    (rows,) = charts.rates(frame, ["LeNet-5"]).to_dict()["datasets"].values()
    assert {row["method"] for row in rows} == fit < set(frame["method"])
    assert "do not fit in memory are left out" in str(charts.rates(frame, ["LeNet-5"]).title)
    memory = memory_of("lenet5", None, "float32")
    problem = Problem(profile_model("lenet5"), cluster, memory=memory)
    (won,) = charts.winners({(1.0, 1.0): problem}).iter_rows(named=True)
    assert won["method"] in fit


def test_timelines_end_together_and_overlap_nowhere() -> None:
    frame = charts.timeline(Problem(profile_model("lenet5"), home()))
    assert set(frame["method"]) == set(charts.SHOWN)
    computing = frame.filter(action="computing").sort("method", "node", "start_s")
    gaps = computing.with_columns(
        gap=pl.col("start_s") - pl.col("end_s").shift().over("method", "node")
    )["gap"].drop_nulls()
    assert (gaps >= -1e-9).all()
    assert figures.svg(charts.timelines(frame, ["LeNet-5"])).startswith("<svg")


def test_the_winner_is_the_first_row_of_the_table() -> None:
    for setting in (SETTING, replace(SETTING, samples="stay", unevenness=10.0)):
        (row,) = charts.winners({(1.0, 1.0): explorer.problem_of(setting)}).iter_rows(named=True)
        table = explorer.table(setting)
        assert row["method"].split(", ")[0] in table["method"][0]
        assert row["margin"] >= 1


ENDS: list[dict[str, Any]] = [
    {name: value} for name, control in controls(SETTING).items() for value in settings(control)
]
FEW = ("lenet5", "gpt2", "bert_tiny", "vit_tiny", "mask_rcnn")


@pytest.mark.parametrize(
    "changed", usually([one for one in ENDS if one.get("model", FEW[0]) in FEW], ENDS), ids=str
)
def test_every_end_of_the_explorer_s_controls_can_be_drawn(changed: dict[str, Any]) -> None:
    assert explorer.draw(replace(SETTING, **changed))["vconcat"]


@pytest.mark.parametrize("samples", explorer.RULES)
def test_problems_are_the_setting_at_other_links_and_speeds(samples: str) -> None:
    problems = explorer.problems(SETTING, samples)
    assert len(problems) == len(explorer.BANDWIDTHS_MBPS) * len(explorer.UNEVENNESSES)
    (bandwidth_mbps, unevenness), problem = list(problems.items())[-1]
    assert problem.cluster.link("worker0", "edge").bandwidth == bandwidth_mbps * 1e6
    first, last = (problem.cluster.nodes[at].flops_per_s or 0 for at in (0, 3))
    assert first / last == pytest.approx(unevenness)
    assert problem.cluster.raw_samples_may_leave is (samples == "may leave")

"""Frames behind the figures: their columns, what must be so in each, and Table 1's counting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from tests.expectations import stored_frames
from workbench.dlion.algorithms import COMPARED
from workbench.dlion.algorithms.synchronisation import Bounded, Progress, synchronous
from workbench.dlion.gradient import Gradient, Links, Parts
from workbench.dlion.paper import controllers, tables
from workbench.dlion.paper.beyond import EVERY
from workbench.dlion.paper.cases import (
    ABOUT,
    CURVE,
    LEARNING,
    MAX_10,
    SCENARIOS,
)
from workbench.dlion.paper.tables import statements
from workbench.dlion.paper.testbed import CANDIDATES, STATED
from workbench.reproduction import systems
from workbench.reproduction.figure import Figure

FIGURES = systems.figures("dlion")
TRAININGS = {
    **dict.fromkeys(("fig11", "fig13", "fig15", "fig17"), 3 * len(COMPARED)),
    **dict.fromkeys(("fig12", "fig18"), 2 * len(COMPARED)),
    "fig16": 3 * (len(COMPARED) - 1 + len(MAX_10)),
    **{"fig5": 4, "fig7": 4, "fig9": 9, "fig14": 3 * 3, "fig21": len(COMPARED)},
    **{"techniques": 2 * 8, "weightings": 3, "all_systems": 2 * len(EVERY)},
    **{"scaling": 3 * 2, "not_sent": len(MAX_10) + 1 + 6 * 3 + 3, "failures": 2 * 4},
    "candidates": (len(CANDIDATES) + 1) * len(COMPARED),
}
FRAMES: dict[str, pl.DataFrame] = {}


@pytest.fixture(autouse=True, scope="module")
def stored(smoke: Smoke) -> None:
    """Read the frames of the notebook."""
    FRAMES.update(stored_frames(smoke, "dlion"))


@pytest.mark.parametrize("name", TRAININGS)
def test_rows_of_trainings(name: str) -> None:
    found = FRAMES[name]
    assert dict(found.schema) == {**ABOUT, **CURVE}
    assert len(found) == LEARNING.smoke.instants * TRAININGS[name]
    assert found["reason"].null_count() == len(found)
    last = found.filter(pl.col("at_s") == pl.col("seconds"))
    assert len(last) == TRAININGS[name]
    assert set(found["dataset"]) == {"digits"}
    if name != "failures":
        assert last["top1"].is_between(0, 1).all()
    of = [column for column in found.columns if column not in CURVE]
    for _, part in found.group_by(of, maintain_order=True):
        assert all(part[column].is_sorted() for column in ("at_s", "iterations", "mbytes"))


def test_the_others_go_on_without_who_fails() -> None:
    last = FRAMES["failures"].filter(pl.col("at_s") == pl.col("seconds"))
    for _, rows in last.group_by("system"):
        mean = dict(rows.select("scenario", "iterations").iter_rows())
        assert set(mean) == {None, *SCENARIOS}
        assert mean["worker 1 crashes"] > mean[None] / 4  # as many as if all had stopped with it


def shortened(figure: Figure, seconds: float) -> pl.DataFrame:
    """At scale default, of fewer seconds."""
    assert isinstance(figure.compute, partial)
    title, measure, where, _, grows = figure.compute.args
    compute = partial(controllers.decided, title, measure, where, seconds, grows)
    return replace(figure, compute=compute).frame("default")


class TestControllers:
    @pytest.mark.parametrize("name", ["fig6", "fig19"])
    def test_local_batches_sum_to_the_global_batch(self, name: str) -> None:
        found = FRAMES[name]
        assert found.columns == list(controllers.BATCHES)
        whole = found.group_by("iteration").agg(
            pl.col("samples").sum(), pl.len(), pl.col("global_batch").max()
        )
        whole = whole.filter(pl.col("len") == 6)
        assert whole["samples"].to_list() == whole["global_batch"].to_list()

    def test_the_global_batch_grows_and_local_ones_follow_cores(self) -> None:
        """With the learner of default: well within the paper's 1,500 s."""
        found = shortened(controllers.FIG6, 400.0).sort("at_s")
        sizes = found["global_batch"].unique(maintain_order=True).to_list()
        assert sizes[0] == 6 * 32
        assert len(sizes) > 1
        assert sizes == sorted(sizes)
        for size in sizes:
            rows = found.filter(global_batch=size).group_by("cores").agg(pl.col("samples").mean())
            few, some, many = rows.sort("cores")["samples"].to_list()
            assert few < some < many

    def test_local_batches_follow_cores_that_change(self) -> None:
        """In Figure 19 from 100 s on, once batches have been timed again."""
        assert set(FRAMES["fig19"]["global_batch"]) == {6 * 32} == {STATED["fig19"]["gbs"]}
        last = shortened(controllers.FIG19, 290.0).filter(pl.col("at_s") > 270)
        means = last.group_by("cores").agg(pl.col("samples").mean()).sort("cores")["samples"]
        assert len(means) > 1
        assert means.is_sorted()
        assert means.n_unique() == len(means)

    @pytest.mark.parametrize(("name", "mbps"), [("fig8", {20, 35, 50}), ("fig20", {30, 100})])
    def test_shares_of_a_whole_gradient(self, name: str, mbps: set[float]) -> None:
        found = FRAMES[name]
        assert found.columns == list(controllers.LINKS)
        assert (found["source"] != found["target"]).all()
        assert found["percent"].is_between(0, 100.5).all()
        assert set(found["mbps"]) <= mbps


class TestTables:
    def test_table_1_has_a_row_for_each_hook(self) -> None:
        hooks = FRAMES["table1"].select("system", "hook").rows()
        assert hooks == list(product(COMPARED, tables.HOOKS))

    def test_table_3_has_all_phases(self) -> None:
        table3 = FRAMES["table3"]
        phases = table3.filter(environment="dynamic_sys_a", node=5)
        assert phases.select("from_s", "to_s", "cores", "mbps").rows() == [
            (0, 500, 24, 50),
            (500, 1000, 6, 20),
            (1000, 1500, 6, 50),
        ]
        assert set(table3.filter(environment="hetero_sys_c")["unit"]) == {"GPUs"}
        printed = tables.by_phase(table3).filter(environment="dynamic_sys_a")
        assert printed["worker 5"][1] == "6 cores, 20 Mbit/s"

    def test_sizes_of_the_models(self) -> None:
        rows = FRAMES["models"].rows()
        assert rows == [("cipher", pytest.approx(5.2, abs=0.1), 5), ("mobilenet", 16.927904, 28)]

    def test_where_sizes_are_known_the_cost_model_is_exact(self) -> None:
        few = ["baseline", "hop", "ako"]
        found = tables.predicted(few, 20)
        assert found["system"].to_list() == few
        exact = found.filter(pl.col("system") != "hop")
        assert exact["percent"].to_list() == pytest.approx([0, 0], abs=1e-6)
        assert (found["percent"].abs() < 2).all()


def one_statement(gradient: Gradient, links: Links) -> Parts:
    """A docstring is none."""
    return dict.fromkeys(links.peers, gradient.whole)


def four(gradient: Gradient, links: Links) -> Parts:
    parts: dict[int, object] = {}
    for peer in links.peers:  # the loop and its body
        parts[peer] = gradient.whole
    return one_statement(gradient, links)  # what it calls is not counted


class Five:
    """One and four; other methods are called, as functions are."""

    def __init__(self) -> None:
        self.turn = 0

    def __call__(self, gradient: Gradient, links: Links) -> Mapping[int, object]:
        """Not this."""
        self.turn += 1
        if self.turn > 1:
            return self.nothing()
        return dict.fromkeys(links.peers, gradient.whole)

    def nothing(self) -> Mapping[int, object]:
        found: dict[int, object] = {}
        return found


def ahead(progress: Progress) -> bool:
    return progress.iteration < 3


@pytest.mark.parametrize(
    ("hook", "count"),
    [
        (one_statement, 1),
        (four, 4),
        (Five, 5),
        (Five(), 5),
        (ahead, 1),
        (synchronous, 0),
        (Bounded(2), 0),
    ],
)
def test_statements_by_hand(hook: Any, count: int) -> None:
    assert statements(hook) == count

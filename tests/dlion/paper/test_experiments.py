"""Frames behind the figures: their columns, what must be so in each, and Table 1's counting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from tests.expectations import stored_frames
from workbench.decentralised.gradient_exchange.gradient import Gradient, Links, Parts
from workbench.dlion.algorithms import COMPARED, SYSTEMS
from workbench.dlion.algorithms.synchronisation import Bounded, Progress, synchronous
from workbench.dlion.algorithms.weighted_update import WEIGHTINGS
from workbench.dlion.paper import controllers, cost_model
from workbench.dlion.paper.cases import LEARNING, MAX_10, TIMED
from workbench.dlion.paper.compared import FIG11, FIG12
from workbench.dlion.paper.cost_model import statements
from workbench.dlion.paper.testbed import CANDIDATES, FIRST_WEIGHTS, STATED, Learner
from workbench.dlion.paper.trainings import ABOUT, CURVE, SEEDS
from workbench.reproduction import systems
from workbench.reproduction.figure import Figure
from workbench.reproduction.parameters import SCALES

FIGURES = systems.figures("dlion")
ADDED: Mapping[str, Mapping[str, Any]] = {
    "fig9": {"panel": pl.String},
    "explanations": {"explanation": pl.String},
    "failures": {"scenario": pl.String, "others": pl.Float64},
}
TRAININGS = {
    **dict.fromkeys(("fig11", "fig13", "fig15", "fig17"), 3 * len(COMPARED)),
    **dict.fromkeys(("fig12", "fig18"), 2 * len(COMPARED)),
    "fig16": 3 * (len(COMPARED) - 1 + len(MAX_10)),
    **{"fig5": 4, "fig7": 4, "fig9": 4 + 3 + 4, "fig14": 3 * 3, "fig21": len(COMPARED)},
    **{"techniques": 2 * 8, "weightings": len(WEIGHTINGS), "all_systems": 2 * len(SYSTEMS)},
    **{
        "scaling": 3 * 2,
        "explanations": 4 * 3,
        "not_sent": len(MAX_10) + 1 + 6 * 3 + 3,
        "failures": 2 * 4,
    },
    "candidates": (len(CANDIDATES) + 1) * len(COMPARED),
}
FRAMES: dict[str, pl.DataFrame] = {}


@pytest.fixture(autouse=True, scope="module")
def stored(smoke: Smoke) -> None:
    """Read the frames of the notebook."""
    FRAMES.update(stored_frames(smoke, "dlion"))


def frame(name: str) -> pl.DataFrame:
    return FRAMES[name]


@pytest.mark.parametrize("name", TRAININGS)
def test_columns_and_rows_of_trainings(name: str) -> None:
    found = frame(name)
    assert dict(found.schema) == {**ABOUT, **CURVE, **ADDED.get(name, {})}
    assert len(found) == LEARNING.smoke.instants * TRAININGS[name]
    assert found["reason"].null_count() == len(found)
    assert (found["at_s"] <= found["seconds"]).all()
    last = found.filter(pl.col("at_s") == pl.col("seconds"))
    assert len(last) == TRAININGS[name]
    if name != "failures":
        assert last["top1"].is_between(0, 1).all()
        assert last["top1"].null_count() == 0
    assert set(found["dataset"]) == {"digits"}


@pytest.mark.parametrize("name", TRAININGS)
def test_what_is_done_and_sent_only_grows(name: str) -> None:
    of = [one for one in frame(name).columns if one not in CURVE]
    for _, part in frame(name).group_by(of, maintain_order=True):
        for column in ("at_s", "iterations", "mbytes"):
            assert part[column].is_sorted(), (name, column)


EACH = ("batching", "links", "transfer")
SETTINGS: dict[tuple[str, str], list[object]] = {
    ("fig11", "environment"): ["homo_a", "hetero_sys_a", "hetero_sys_b"],
    ("fig12", "environment"): ["homo_c", "hetero_sys_c"],
    ("fig13", "environment"): ["homo_a", "hetero_cpu_a", "hetero_cpu_b"],
    ("fig14", "environment"): ["homo_a", "hetero_cpu_a", "hetero_cpu_b"],
    ("fig15", "environment"): ["homo_a", "homo_b", "hetero_net_a"],
    ("fig17", "environment"): ["hetero_sys_b", "hetero_net_a", "hetero_cpu_b"],
    ("fig18", "environment"): ["dynamic_sys_a", "dynamic_sys_b"],
    ("fig11", "seconds"): [1500],
    ("fig12", "seconds"): [STATED["training"]["mobilenet_s"]],
    ("fig21", "seconds"): [1500],
    ("fig12", "timed"): ["mobilenet_v1"],
    ("fig5", "growth_epochs"): [0, 1, 2, 4],
    ("fig7", "n"): [1, 10, 50, 100],
    ("candidates", "first_weights"): list(FIRST_WEIGHTS),
    ("scaling", "workers"): [6, 12],
    ("techniques", "techniques"): [
        *(" + ".join(one) for count in range(3) for one in combinations(EACH, count)),
        None,
    ],
}
"""Of a figure's column all values, in the order of the trainings."""


@pytest.mark.parametrize(("name", "column"), SETTINGS)
def test_settings(name: str, column: str) -> None:
    found = frame(name)[column].unique(maintain_order=True).to_list()
    assert found == SETTINGS[name, column]


def test_settings_of_knowledge_transfer() -> None:
    fig9 = frame("fig9")
    periods = fig9.filter(panel="period").select("period", "early").unique().sort("period", "early")
    assert periods.rows() == [(None, 500), (10, None), (100, None), (1000, None)]
    assert set(fig9.filter(panel="whom")["whom"]) == {None, "worst"}
    assert fig9.filter(panel="lambda")["share"].unique().sort().to_list() == [0, 0.5, 0.75, 1]


def test_a_training_is_the_same_in_each_figure() -> None:
    one, *others = (
        frame(name).filter(system="dlion", environment="homo_a").select(*CURVE)
        for name in ("fig11", "fig13", "fig15", "fig21")
    )
    assert all(other.equals(one) for other in others)


def test_who_fails_learns_less_and_the_others_go_on() -> None:
    last = frame("failures").filter(pl.col("at_s") == pl.col("seconds"))
    for _, rows in last.group_by("system"):
        others = dict(rows.select("scenario", "others").iter_rows())
        own = dict(rows.select("scenario", 6 * pl.col("iterations") - 5 * pl.col("others")).rows())
        assert own["worker 1 crashes"] < own["and comes back"] < own["nothing"]
        assert others["worker 1 crashes"] > others["nothing"] / 4  # of the time before it


def shortened(figure: Figure, seconds: float) -> pl.DataFrame:
    """At scale default, of fewer seconds."""
    assert isinstance(figure.compute, partial)
    title, what, where, _, growth = figure.compute.args
    compute = partial(controllers.decided, title, what, where, seconds, growth)
    return replace(figure, compute=compute).frame("default")


class TestControllers:
    @pytest.mark.parametrize("name", ["fig6", "fig19"])
    def test_local_batches_sum_to_the_global_batch(self, name: str) -> None:
        found = frame(name)
        assert found.columns == list(controllers.BATCHES)
        whole = found.group_by("iteration").agg(
            pl.col("samples", "node").sum(), pl.len(), pl.col("global_batch").max()
        )
        for row in whole.filter(pl.col("len") == 6).iter_rows(named=True):
            assert row["samples"] == row["global_batch"]

    def test_sizes_are_the_papers(self) -> None:
        assert set(frame("fig19")["global_batch"]) == {6 * 32} == {STATED["fig19"]["gbs"]}

    def test_the_global_batch_grows_and_local_ones_follow_cores(self) -> None:
        """With the learner of default: well within the paper's 1,500 s."""
        found = shortened(controllers.FIG6, 600.0).sort("at_s")
        sizes = found["global_batch"].unique(maintain_order=True).to_list()
        assert sizes[0] == 6 * 32
        assert len(sizes) > 1
        assert sizes == sorted(sizes)
        for size in sizes:
            rows = found.filter(global_batch=size).group_by("cores").agg(pl.col("samples").mean())
            means = rows.sort("cores")["samples"].to_list()
            assert len(means) == 3
            assert means[0] < means[1] < means[2]

    def test_local_batches_follow_cores_that_change(self) -> None:
        """In Figure 19 from 100 s on, once batches have been timed again."""
        last = shortened(controllers.FIG19, 290.0).filter(pl.col("at_s") > 270)
        means = last.group_by("cores").agg(pl.col("samples").mean()).sort("cores")["samples"]
        assert len(means) > 1
        assert means.is_sorted()
        assert means.n_unique() == len(means)

    @pytest.mark.parametrize("name", ["fig8", "fig20"])
    def test_shares_of_a_whole_gradient(self, name: str) -> None:
        found = frame(name)
        assert found.columns == list(controllers.LINKS)
        assert (found["source"] != found["target"]).all()
        assert found["percent"].is_between(0, 100.5).all()
        assert set(found["mbps"]) <= ({20, 35, 50} if name == "fig8" else {30, 100})


class TestTables:
    def test_table_1_has_a_row_for_each_hook(self) -> None:
        hooks = frame("table1").select("system", "hook").rows()
        assert hooks == list(product(COMPARED, cost_model.HOOKS))

    def test_table_3_has_all_phases(self) -> None:
        table3 = frame("table3")
        phases = table3.filter(environment="dynamic_sys_a", node=5)
        assert phases.select("from_s", "to_s", "cores", "mbps").rows() == [
            (0, 500, 24, 50),
            (500, 1000, 6, 20),
            (1000, 1500, 6, 50),
        ]
        assert set(table3.filter(environment="hetero_sys_c")["unit"]) == {"GPUs"}
        printed = cost_model.by_phase(table3).filter(environment="dynamic_sys_a")
        assert printed["worker 5"].to_list() == [
            "24 cores, 50 Mbit/s",
            "6 cores, 20 Mbit/s",
            "6 cores, 50 Mbit/s",
        ]


class TestPredicted:
    def test_where_sizes_are_known_the_cost_model_is_exact(self) -> None:
        few = ["baseline", "hop", "ako"]
        found = cost_model.predicted(few, 20)
        assert found["system"].to_list() == few
        exact = found.filter(pl.col("system") != "hop")
        assert exact["percent"].to_list() == pytest.approx([0, 0], abs=1e-6)
        assert (found["percent"].abs() < 2).all()


# --- Table 1's counting --------------------------------------------------------------------------


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
        (Bounded(), 0),
        (Bounded(2), 0),
    ],
)
def test_statements_by_hand(hook: object, count: int) -> None:
    assert statements(hook) == count  # type: ignore[arg-type]


# --- Scales --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
def test_each_scale_has_a_learner_that_fits(scale: str) -> None:
    for figure in (FIG11, FIG12):
        learner = figure.sizes["learning"].at(scale).learner
        assert learner.model == learner.timed or learner.stands_for >= 1
        assert learner.local_batch <= 32
    assert LEARNING.paper.learner == Learner()
    assert TIMED.paper.evaluate_every == STATED["training"]["evaluate_every"] == 20
    assert SEEDS.paper == STATED["training"]["runs"] == 3


def test_what_can_be_recorded_is_there() -> None:
    learning = {name for name, figure in FIGURES.items() if "learning" in figure.sizes}
    assert set(systems.recordable("dlion")) == learning
    assert {one.data for one in systems.recordable("dlion").values()} == {("cifar10",)}

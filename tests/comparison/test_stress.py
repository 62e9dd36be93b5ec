"""Trainings under stress: methods that wait for a dead node stop, those with a timeout go on."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from workbench import datasets
from workbench.clusters import Cluster, Link, Node, full_mesh, star
from workbench.comparison import METHODS, Problem
from workbench.comparison.learning import charts, stress
from workbench.comparison.learning.ranking import TrainedMethods
from workbench.comparison.learning.stress import STRESSES
from workbench.profiles import profile_model
from workbench.runtime import simulate
from workbench.utils.checks import UserError

DIGITS = datasets.load("digits").fitted((1, 28, 28)).limit(train=240, test=40)
LINK = Link(2e7, overhead_s=0.002)
WAITING = ["parameter server, dynacomm", "all-reduce", "hiertrain", "fedavg"]
PATIENT = ["gossip", "gosgd", "dlion", "baseline", "diloco"]


def boards() -> Cluster:
    nodes = [Node(f"n{at}", flops_per_s=2e8, samples=10) for at in range(3)]
    return star(nodes, [Node("edge", flops_per_s=1e8)], LINK)


def stressed(cluster: Cluster, *methods: str, **options: Any) -> pl.DataFrame:
    given = {"epochs": 1, "processes": 1} | options
    return stress("lenet5", cluster, DIGITS, 8, methods=methods, **given)


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return stressed(boards(), *WAITING, *PATIENT, "one node")


def test_every_method_has_a_row_for_each_stress(frame: pl.DataFrame) -> None:
    rows = frame.group_by("method", maintain_order=True).agg("stress")
    assert all(stresses == ["none", *STRESSES] for stresses in rows["stress"].to_list())
    assert frame.filter(stress="none")["rate_share"].to_list() == [1.0] * len(rows)


@pytest.mark.parametrize("method", WAITING)
def test_methods_that_wait_stop_when_a_node_is_gone(frame: pl.DataFrame, method: str) -> None:
    (gone,) = frame.filter(stress="node dies", method=method).to_dicts()
    assert gone["stops"]
    assert gone["reason"] == "the others wait for ever"
    assert not METHODS[method].survives


@pytest.mark.parametrize("method", PATIENT)
def test_methods_with_a_timeout_go_on_without_a_node(frame: pl.DataFrame, method: str) -> None:
    (gone,) = frame.filter(stress="node dies", method=method).to_dicts()
    assert not gone["stops"]
    assert 0 < gone["rate_share"] < 1.02
    assert METHODS[method].survives


def test_a_node_at_half_speed_delays_all_that_wait_for_it(frame: pl.DataFrame) -> None:
    """By hand: an iteration is computing and then averaging; computing takes twice as long."""
    problem = Problem(profile_model("lenet5"), boards(), 8)
    computing = problem.batch_s(0) / METHODS["all-reduce"].plan(problem).cost.iteration_s
    slowed = frame.filter(stress="node slows", method="all-reduce")["rate_share"][0]
    assert slowed == pytest.approx(1 / (1 + computing / 2), rel=0.01)


def test_methods_that_do_not_use_the_node_lose_nothing(frame: pl.DataFrame) -> None:
    kept = frame.filter(pl.col("stress") != "labels uneven", method="one node")
    assert kept["rate_share"].to_list() == [1.0] * 3
    assert kept["end_top1"].n_unique() == 1


@pytest.mark.parametrize("cluster", [boards(), Cluster([Node("n0", flops_per_s=1e9)])])
def test_training_stops_when_its_only_node_dies(cluster: Cluster) -> None:
    frame = stressed(cluster, "one node", node="n0")
    (row,) = frame.filter(stress="node dies").to_dicts()
    assert row["stops"]
    assert "nobody" in row["reason"]


def test_the_same_bits_in_other_processes_and_a_method_that_cannot_be_used() -> None:
    cluster = full_mesh([Node(f"n{at}", flops_per_s=2e8, samples=10) for at in range(2)], LINK)
    runs = [stressed(cluster, "hiertrain", "all-reduce", processes=count) for count in (1, 2)]
    assert runs[0].equals(runs[1])
    assert "three nodes" in runs[0].row(0, named=True)["reason"]
    assert len(runs[0]) == 2 + len(STRESSES)


def test_tier_of_devices_stops_without_any_of_them() -> None:
    nodes = [Node(f"n{at}", flops_per_s=2e8, samples=10) for at in range(3)]
    edge, cloud = Node("edge", flops_per_s=1e9), Node("cloud", flops_per_s=1e10)
    cluster = star([edge], [*nodes, cloud], LINK)
    found = stressed(cluster, "hiertrain", node="n2")
    stops = dict(found.select("stress", "stops").iter_rows())
    assert [name for name, stopped in stops.items() if stopped] == ["node dies"]
    problem = Problem(profile_model("lenet5"), cluster, 8)
    plan = METHODS["hiertrain"].plan(problem)
    (phase,) = plan.phases
    seconds = simulate(phase.cluster, phase.programs(300)).end_s / 300
    assert seconds == pytest.approx(plan.cost.iteration_s, rel=0.02)


def test_refusals_name_what_is_wrong() -> None:
    with pytest.raises(UserError, match="unknown node 'n9'"):
        stressed(boards(), "gossip", node="n9")
    with pytest.raises(UserError, match="unknown method"):
        stressed(boards(), "all_reduce")


def test_charts_say_what_stops_and_show_means_with_their_spread(frame: pl.DataFrame) -> None:
    drawn = charts.draw_stress(frame, ["title"])
    assert "stops" in str(drawn["datasets"])
    evaluations = pl.DataFrame(
        [
            ("gossip", 0.1, seed, at_s, at_s * 1e6, at_s, loss, 1 - loss)
            for seed, losses in enumerate([(1.0, 0.5, 0.2), (1.0, 0.7, 0.4)])
            for at_s, loss in zip((0.0, 1.0, 2.0), losses, strict=True)
        ],
        schema=["method", "learning_rate", "seed", "at_s", "bytes", "samples", "loss", "top1"],
        orient="row",
    )
    summary = pl.DataFrame({"method": ["gossip"], "learning_rate": [0.1]})
    curves = charts.curves(TrainedMethods(evaluations, summary, 0.1), ["gossip"])
    first = curves.filter(axis="at_s", measure="loss").row(0, named=True)
    last = curves.filter(axis="bytes", measure="top1").row(-1, named=True)
    assert (first["at"], first["low"], first["high"]) == (1.0, 0.5, 0.7)
    assert first["mean"] == pytest.approx(0.6)
    assert (last["at"], last["low"], last["high"]) == pytest.approx((2.0, 60.0, 80.0))


def test_a_chart_shows_as_many_methods_equal_to_sgd_as_others() -> None:
    names = ["gossip", "gosgd", "fedavg", "edgegossip", "dlion"]
    names += ["all-reduce", "hiertrain", "all_edge"]
    rows = [(name, METHODS[name].system, METHODS[name].update, None) for name in names]
    schema = dict.fromkeys(("method", "system", "update", "reason"), pl.String)
    summary = pl.DataFrame(rows, schema=schema, orient="row")
    found = charts.shown(TrainedMethods(pl.DataFrame(), summary, 1.0), 5)
    assert found == ["gossip", "fedavg", "edgegossip", "all-reduce", "hiertrain"]

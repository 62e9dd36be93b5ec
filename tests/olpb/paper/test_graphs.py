"""Counts of nodes by pattern, and the picture of a graph, against plain loops."""

from __future__ import annotations

import re

import polars as pl
import pytest
from torch import nn

from tests.graphs.optimiser.test_optimise import Wasteful
from workbench import figures
from workbench.claims import paper_value
from workbench.graphs import trace
from workbench.olpb import optimise
from workbench.olpb.paper import graphs as paper

BRANCHES = "resnet20_cifar"


@pytest.fixture(scope="module")
def optimiser() -> pl.DataFrame:
    return paper.optimiser()


def test_the_lenet_like_network_is_the_papers() -> None:
    graph = paper._lenet_like()
    weights = graph.nodes.filter(pl.col("shape").list.len() >= 2, kind="parameter")["shape"]
    linear = [[120, 16 * 7 * 7], [84, 120], [10, 84]]
    assert weights.to_list() == [[6, 1, 1, 1], [16, 6, 5, 5], *linear]
    names = [one.name for one in graph.operators if one.phase == "forward"]
    assert names.count("relu") == 4
    assert names.count("max_pool2d_with_indices") == 2
    loss = ["_softmax", "log", "mul", "sum", "neg"]
    assert [name for name in names if name in loss] == loss
    assert {one.phase for one in graph.operators} == {"forward", "backward", "update"}


def test_patterns_remove_what_the_graphs_lack(optimiser: pl.DataFrame) -> None:
    graph = paper._lenet_like()
    left = optimise(graph).graph
    for count, before, after in (
        ("nodes", len(graph.nodes), len(left.nodes)),
        ("edges", len(graph.edges), len(left.edges)),
    ):
        assert optimiser[count][0] == before > optimiser[count][-1] == after
        assert optimiser[count].is_sorted(descending=True)
        assert optimiser[f"{count}_removed_percent"][-1] == pytest.approx(
            100 * (before - after) / before
        )
        stated = paper_value(f"olpb.optimiser.{count}")
        assert set(optimiser[f"paper_{count}_removed_percent"]) == {stated}
        answer = paper.OPTIMISER.answers[f"olpb.optimiser.{count}"](optimiser)
        assert answer is not None
        assert answer.ours == pytest.approx(100 * (before - after) / before)
        assert f"{before} to {after}" in answer.detail


def test_operators_are_counted_as_the_graph_shows_them() -> None:
    frame = paper.operators(["lenet5"])
    assert frame["training"].to_list() == [False, True]
    # by hand: 2 convolutions and poolings, 4 ReLU, 3 linear layers, each transposed, 1 flattening
    inference = frame.row(0, named=True)
    assert inference["operators"] == 2 + 2 + 4 + 3 + 3 + 1
    assert inference["parameters"] == 10
    assert inference["nodes"] == inference["operators"] + 10 + 1
    # what is left: 2 convolutions with their ReLU, 2 poolings, 3 linear layers, 2 ReLU
    assert inference["optimised_operators"] == 9
    assert (frame["optimised_nodes"] < frame["nodes"]).all()
    assert (frame["optimised_edges"] < frame["edges"]).all()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("model", ["lenet5", BRANCHES])
def test_levels_are_longest_paths_and_what_stays_is_what_is_left(
    model: str, training: bool
) -> None:
    frame = paper.graph(model, training, batch_size=2)
    level: dict[int, int] = {}
    for row in frame.iter_rows(named=True):
        level[row["node"]] = max((level[source] + 1 for source in row["sources"]), default=0)
        assert row["level"] == level[row["node"]]
    left = optimise(trace(model, batch_size=2, training=training)).graph
    stays = frame.filter(pl.col("removed_by").is_null(), kind="operator")
    assert len(stays) == len(left.operators)
    assert set(frame.filter(pl.col("kind") != "operator")["removed_by"]) == {None}


def test_each_pattern_is_named_where_it_removes() -> None:
    frame = paper.drawn(trace(Wasteful(), (1, 4, 4), 2))
    removed = dict(frame.filter(kind="operator").select("name", "removed_by").iter_rows())
    assert removed["sin"] == "dead code"
    assert removed["transpose"] == "views"
    assert removed["convolution"] == "normalisation into convolution"
    by_name = frame.group_by("name").agg(pl.col("removed_by").drop_nulls().sort())
    found = dict(by_name.iter_rows())
    # y * 1, the gain's and y's exponentials, of which one is computed twice, and their product
    assert "common subexpressions" in found["exp"]
    assert "constant folding" in found["exp"]
    assert found["mul"] == ["neutral"]


def test_two_views_of_the_same_are_both_removed() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(nn.Linear(3, 3).weight.detach())

        def forward(self, x):  # type: ignore[no-untyped-def]
            return x @ self.weight.t() + x.exp() @ self.weight.t()

    frame = paper.drawn(trace(Twice(), (3,), 2))
    assert frame.filter(name="t")["removed_by"].to_list() == ["views", "views"]


def test_bytes_alive_by_level_are_those_of_a_plain_count() -> None:
    frame = paper.levels([BRANCHES], training=True, batch_size=2)
    graph = optimise(trace(BRANCHES, batch_size=2, training=True)).graph
    nodes = {row["node"]: row for row in graph.nodes.iter_rows(named=True)}
    reads: dict[int, list[int]] = {node: [] for node in nodes}
    for source, target in graph.edges.iter_rows():
        reads[target].append(source)
    level: dict[int, int] = {}
    follows: dict[int, bool] = {}
    for node, row in nodes.items():
        level[node] = max((level[one] + 1 for one in reads[node]), default=0)
        follows[node] = row["kind"] == "input" or any(follows[one] for one in reads[node])
    kept = [n for n, row in nodes.items() if row["kind"] == "operator" and follows[n]]
    assert frame["operators"].sum() == len(kept) < len(graph.operators)
    for at, alive in frame.drop_nulls("alive_bytes").select("level", "alive_bytes").iter_rows():
        expected = 0
        for node in kept:
            later = [level[reader] for reader in kept if node in reads[reader]]
            if level[node] <= at <= max([level[node], *later]):
                expected += nodes[node]["bytes"]
        assert alive == expected


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown model 'lenet'"):
        paper.graph("lenet")
    with pytest.raises(ValueError, match="batch_size"):
        paper.graph("lenet5", batch_size=0)
    with pytest.raises(ValueError, match="batch_size"):
        paper.levels(["lenet5"], batch_size=0)


@pytest.mark.parametrize("model", ["lenet5", BRANCHES])
def test_a_picture_is_filled_and_names_each_node_once(model: str) -> None:
    frame = paper.graph(model)
    svg = figures.svg(paper.draw_graph(frame))
    assert svg.count(">relu<") == len(frame.filter(name="relu"))
    across = [float(x) for x in re.findall(r'"circle" transform="translate\(([\d.]+),', svg)]
    assert len(across) == len(frame)
    view = re.search(r'viewBox="0 0 ([\d.]+)', svg)
    assert view is not None
    assert max(across) - min(across) >= 0.6 * float(view[1])


def test_no_two_nodes_of_a_picture_are_in_one_place() -> None:
    for model in ("lenet5", BRANCHES, "squeezenet_cifar"):
        for training in (False, True):
            placed = paper._placed(paper.graph(model, training, batch_size=2))
            spots = placed.select(pl.col("x", "y").round(6))
            assert spots.is_unique().all()
            assert len(placed) == len(paper.graph(model, training, batch_size=2))

"""Counts of nodes and operators, by pattern and by network."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from workbench.memory.optimiser import optimise
from workbench.olpb.paper import graphs as paper
from workbench.reproduction.claims import paper_value


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


def test_patterns_remove_what_the_graphs_lack() -> None:
    frame, graph = paper.optimiser(), paper._lenet_like()
    left = optimise(graph).graph
    for count in paper.COUNTS:
        before, after = (len(getattr(one, count)) for one in (graph, left))
        assert frame[count][0] == before > frame[count][-1] == after
        assert frame[count].is_sorted(descending=True)
        stated = paper_value(f"olpb.optimiser.{count}")
        assert set(frame[f"paper_{count}_removed_percent"]) == {stated}
        answer: Any = paper.OPTIMISER.answers[f"olpb.optimiser.{count}"](frame)
        assert answer.ours == pytest.approx(100 * (before - after) / before)
        assert f"{before} to {after}" in answer.detail
        for which, wanted in (("before", before), ("after", after)):
            counted: Any = paper.OPTIMISER.answers[f"olpb.optimiser.{count}_{which}"](frame)
            assert counted.ours == wanted


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

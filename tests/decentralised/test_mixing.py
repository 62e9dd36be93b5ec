"""Weights keep the mean and bring models together as fast as the spectral gap says."""

from __future__ import annotations

from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import gossip as oracle
from tests.refusals import refusals
from workbench import decentralised
from workbench.decentralised import GRAPHS, Mixing, MixingError, metropolis_hastings
from workbench.decentralised.mixing import as_mixing
from workbench.decentralised.topologies import nearest


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph:
    """Any undirected graph of up to nine nodes, connected or not."""
    count = draw(st.integers(1, 9))
    pairs = [(i, j) for i in range(count) for j in range(i)]
    graph = nx.empty_graph(count)
    graph.add_edges_from(draw(st.lists(st.sampled_from(pairs))) if pairs else [])
    return graph


@given(graph=graphs())
def test_metropolis_hastings(graph: nx.Graph) -> None:
    mixing = metropolis_hastings(graph)
    expected = oracle.metropolis_hastings([list(graph[node]) for node in range(len(graph))])
    assert mixing.matrix == pytest.approx(np.array(expected), abs=1e-15)
    assert mixing.matrix.sum(0) == pytest.approx(np.ones(len(graph)))
    for node in range(len(graph)):
        assert mixing.sources(node) == mixing.targets(node) == tuple(sorted(graph[node]))
    assert (mixing.spectral_gap > 1e-9) == nx.is_connected(graph)


def test_gaps_in_closed_form() -> None:
    gaps = {name: metropolis_hastings(make(8)).spectral_gap for name, make in GRAPHS.items()}
    assert gaps["complete"] == pytest.approx(1)
    assert gaps["ring"] == pytest.approx(2 / 3 * (1 - np.cos(2 * np.pi / 8)))
    assert gaps["star"] == pytest.approx(1 / 8)
    assert gaps["ring"] < gaps["random_regular"] < gaps["complete"]
    assert metropolis_hastings(decentralised.ring(1)).spectral_gap == 1


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_are_connected(name: str) -> None:
    for nodes in (4, 10) if name == "random_regular" else (1, 2, 4, 10):  # three peers each
        graph = GRAPHS[name](nodes)
        assert sorted(graph.nodes) == list(range(nodes))
        assert nx.is_connected(graph)
        degrees = {degree for _, degree in graph.degree}
        expected = {"ring": {min(2, nodes - 1)}, "complete": {nodes - 1}, "random_regular": {3}}
        assert degrees == expected.get(name, degrees)


@pytest.mark.parametrize("nodes", range(1, 12))
def test_two_nearest_are_a_ring_and_all_are_complete(nodes: int) -> None:
    for peers, same in ((2, decentralised.ring), (nodes + nodes % 2, decentralised.complete)):
        assert nx.utils.graphs_equal(nearest(nodes, peers), nx.Graph(same(nodes)))


test_peers = refusals(
    partial(nearest, 5), {"peers": 2}, {"peers": {"an even number": [0, 1, 3, -2, 2.5, None, "2"]}}
)


def test_random_regular_graphs_come_from_their_seed() -> None:
    edges = [set(decentralised.random_regular(20, 4, seed=seed).edges) for seed in (1, 1, 2)]
    assert edges[0] == edges[1] != edges[2]


@given(graph=graphs(), data=st.data())
def test_silent_peers_leave_an_average(graph: nx.Graph, data: st.DataObject) -> None:
    mixing, node = metropolis_hastings(graph), len(graph) - 1
    heard = data.draw(st.sets(st.sampled_from(mixing.sources(node)))) if graph[node] else set()
    weights = mixing.weights(node, heard)
    assert list(weights) == sorted({node, *heard} & {*np.flatnonzero(mixing.matrix[node])}) or (
        weights == {node: 1.0}
    )
    assert sum(weights.values()) == pytest.approx(1)
    ratios = {weights[j] / mixing.matrix[node, j] for j in weights if mixing.matrix[node, j]}
    assert max(ratios, default=1) == pytest.approx(min(ratios, default=1))


def test_who_has_nothing_to_go_by_keeps_its_model() -> None:
    swap = Mixing(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert swap.weights(0, []) == {0: 1.0}
    assert swap.weights(0, [1]) == {1: 1.0}


test_mixing_refused = refusals(
    Mixing,
    {"matrix": np.eye(2)},
    {
        "matrix": {
            "weights that node 0 takes .* sum to 0.9, not to 1": [[[0.5, 0.4], [0.5, 0.5]]],
            "all nodes take of node 0's model sum to 1.5": [[[0.5, 0.5], [1.0, 0.0]]],
            "node 0 would take (-0.5 of node 1's model|nan)": [
                [[1.5, -0.5], [-0.5, 1.5]],
                [[np.nan, 1.0], [0.0, 1.0]],
            ],
            r"shape \((1, 2|0, 0)\)": [[[0.5, 0.5]], np.empty((0, 0))],
            "matrix is .*; give rows of equal length": [
                *("ring", [[1, 2], [3]], [["a", "b"], ["c", "d"]]),
                *([[1j, 0], [0, 1j]], [[None, 1], [1, None]]),
            ],
        }
    },
    MixingError,
)
test_as_mixing_refused = refusals(
    as_mixing,
    {"mixing": np.eye(2)},
    {
        "mixing": {
            "mixing is .*give a Mixing, a doubly stochastic": ["ring", 8, object(), {0: [1]}],
        }
    },
    MixingError,
)
test_graph_refused = refusals(
    metropolis_hastings,
    {"graph": decentralised.ring(2)},
    {
        "graph": {
            "is not a networkx graph": [np.eye(2)],
            "nodes 0 to n-1": [nx.Graph([("a", "b")])],
            "undirected": [nx.DiGraph([(0, 1)])],
            "node 1 is its own peer": [nx.Graph([(0, 1), (1, 1)])],
        }
    },
    MixingError,
)


def test_a_matrix_or_a_graph_is_made_a_mixing() -> None:
    made = metropolis_hastings(decentralised.ring(4))
    assert as_mixing(made) is made
    for same in (decentralised.ring(4), made.matrix, made.matrix.tolist()):
        assert np.array_equal(as_mixing(same).matrix, made.matrix)
    assert as_mixing(np.eye(3, dtype=int)).matrix.dtype == np.float64


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("nodes", ["8", 2.5, None, True, 0])
def test_nodes_must_be_a_whole_number(make: Any, nodes: Any) -> None:
    with pytest.raises(ValueError, match=r"nodes is .*; it must be a whole number"):
        make(nodes)
    assert len(make(np.int64(4))) == 4


def test_refusal_of_the_default_degree_says_what_to_try() -> None:
    with pytest.raises(ValueError, match=r"3 peers each, the degree unless one is given; .* Try"):
        decentralised.random_regular(2)
    for nodes in (1, 2, 3, 5):  # what it says to try
        assert len(decentralised.random_regular(nodes, min(2, nodes - 1))) == nodes


test_degree_refused = refusals(
    partial(decentralised.random_regular, 7),
    {"degree": 2},
    {
        "degree": {"7 nodes with .* peers": [3, 7, 1], r"degree is (-1|2\.5)": [-1, 2.5]},
        "seed": {"seed is .*; it must be a whole number": [-1, 1.5, None, "x"]},
    },
)

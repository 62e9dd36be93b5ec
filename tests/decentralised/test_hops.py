"""How far news travels, against networkx."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from tests.decentralised.test_mixing import graphs
from workbench import decentralised
from workbench.decentralised import Mixing, metropolis_hastings
from workbench.decentralised.mixing import diameter, fault_diameter, hops


@given(graph=graphs())
def test_ways_are_the_shortest(graph: nx.Graph) -> None:
    found = hops(metropolis_hastings(graph))
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    for i in graph:
        for j in graph:
            assert found[i, j] == lengths[i].get(j, math.inf)


@given(graph=graphs())
def test_without_any_one_node_or_link_news_comes_in_time(graph: nx.Graph) -> None:
    """Wherever it still comes at all, however a way had to change."""
    left = [graph.copy() for _ in range(1 + len(graph) + graph.number_of_edges())]
    for gone, without in zip(graph, left[1:], strict=False):
        without.remove_node(gone)
    for link, without in zip(graph.edges, left[1 + len(graph) :], strict=True):
        without.remove_edge(*link)
    longest = max(
        length
        for one in left
        for found in dict(nx.all_pairs_shortest_path_length(one)).values()
        for length in found.values()
    )
    assert fault_diameter(metropolis_hastings(graph)) == longest


def test_one_way_links_lead_one_way() -> None:
    """Each takes of the next one's model: news of the next is near, of the one before far."""
    mixing = Mixing(0.5 * np.eye(4) + 0.5 * np.roll(np.eye(4), 1, axis=1))
    assert hops(mixing)[0].tolist() == [0, 1, 2, 3]
    assert hops(mixing)[1].tolist() == [3, 0, 1, 2]
    assert diameter(mixing) == 3


@pytest.mark.parametrize(
    ("graph", "whole", "left"),
    [
        (decentralised.complete(5), 1, 2),
        (decentralised.complete(2), 1, 1),
        (decentralised.ring(6), 3, 5),
        (decentralised.star(5), 2, 2),
        (decentralised.ring(1), 0, 0),
        (nx.path_graph(4), 3, 3),
    ],
)
def test_by_hand(graph: nx.Graph, whole: int, left: int) -> None:
    mixing = metropolis_hastings(graph)
    assert (diameter(mixing), fault_diameter(mixing)) == (whole, left)


def test_parts_are_infinitely_far_apart() -> None:
    assert diameter(metropolis_hastings(nx.Graph([(0, 1), (2, 3)]))) == math.inf

"""Nearest peers on a ring: a ring for two, all for as many as there are."""

import networkx as nx
import pytest

from workbench.decentralised.topologies import complete, nearest, ring


@pytest.mark.parametrize("nodes", range(1, 12))
def test_two_nearest_are_a_ring_and_all_are_complete(nodes: int) -> None:
    assert nx.utils.graphs_equal(nearest(nodes, 2), nx.Graph(ring(nodes)))
    assert nx.utils.graphs_equal(nearest(nodes, nodes + nodes % 2), nx.Graph(complete(nodes)))


@pytest.mark.parametrize("peers", [0, 1, 3, -2, 2.5, None, "2"])
def test_an_odd_number_is_refused(peers: object) -> None:
    with pytest.raises(ValueError, match="give an even number"):
        nearest(5, peers)  # type: ignore[arg-type]

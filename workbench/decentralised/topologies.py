"""Graphs of peers that exchange models: networkx graphs whose nodes are 0 to n-1.

``clusters.graph(n, ring(n).edges, link)`` links the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.utils.checks import UserError, whole

if TYPE_CHECKING:
    import networkx as nx


DEGREE = 3  # of a random regular graph, by default


def ring(nodes: int) -> nx.Graph:
    """Every node with the next, the last with the first."""
    import networkx as nx

    nodes = _checked(nodes)
    graph = nx.path_graph(nodes)
    if nodes > 2:
        graph.add_edge(nodes - 1, 0)
    return graph


def complete(nodes: int) -> nx.Graph:
    """Every node with every other."""
    import networkx as nx

    nodes = _checked(nodes)
    return nx.complete_graph(nodes)


def nearest(nodes: int, peers: int) -> nx.Graph:
    """Every node with the `peers` nearest on a ring, an even number, half on either side."""
    import networkx as nx

    nodes, count = _checked(nodes), whole(peers)
    if count is None or count < 2 or count % 2:
        raise UserError(f"peers is {peers!r}; give an even number, half of them on either side")
    return nx.circulant_graph(nodes, range(1, min(count // 2, nodes // 2) + 1))


def star(nodes: int) -> nx.Graph:
    """Node 0 with every other."""
    import networkx as nx

    nodes = _checked(nodes)
    return nx.star_graph(nodes - 1)


def random_regular(nodes: int, degree: int = DEGREE, *, seed: int = 0) -> nx.Graph:
    """Every node with `degree` others, drawn at random so that all are connected.

    There is no such graph, and a ValueError says so, where the degree is not below the number of
    nodes, both are odd, or a degree of 1 leaves pairs.
    """
    import networkx as nx

    nodes, peers = _checked(nodes), whole(degree)
    if peers is None:
        raise UserError(f"degree is {degree!r}; give a whole number of peers")
    degree = peers
    connected = degree > 1 or nodes == degree + 1
    if not (0 <= degree < nodes and nodes * degree % 2 == 0 and connected):
        unless = ", the degree unless one is given" if degree == DEGREE else ""
        raise UserError(
            f"no connected graph has {nodes} nodes with {degree} peers each{unless}; the degree is "
            "below the number of nodes, one of the two even, and 1 for two nodes alone. Try "
            f"random_regular({nodes}, {min(2, nodes - 1)})"
        )
    for attempt in range(1000):
        graph = nx.random_regular_graph(degree, nodes, seed=seed + 1_000_003 * attempt)
        if nx.is_connected(graph):
            return graph
    raise UserError(f"no draw of {nodes} nodes with {degree} peers each was connected")


GRAPHS: dict[str, Callable[[int], nx.Graph]] = {
    "ring": ring,
    "complete": complete,
    "star": star,
    "random_regular": random_regular,
}


def _checked(nodes: object) -> int:
    count = whole(nodes)
    if count is None:
        raise UserError(f"nodes is {nodes!r}; give how many, a whole number")
    if count < 1:
        raise UserError(f"a graph of {count} nodes; it needs at least one")
    return count

"""Graphs of peers that exchange models: networkx graphs whose nodes are 0 to n-1.

``clusters.graph(n, ring(n).edges, link)`` links the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx

from workbench.utils.checks import UserError, check_whole, whole

DEGREE = 3  # of a random regular graph, by default


def ring(nodes: int) -> nx.Graph:
    """Link every node with the next, and the last with the first."""
    nodes = check_whole("nodes", nodes, 1)
    graph = nx.path_graph(nodes)
    if nodes > 2:
        graph.add_edge(nodes - 1, 0)
    return graph


def complete(nodes: int) -> nx.Graph:
    """Link every node with every other."""
    return nx.complete_graph(check_whole("nodes", nodes, 1))


def nearest(nodes: int, peers: int) -> nx.Graph:
    """Link every node with the `peers` nearest on a ring, an even number, half on either side."""
    nodes, count = check_whole("nodes", nodes, 1), whole(peers) or 0
    if count < 2 or count % 2:
        raise UserError(f"peers is {peers!r}; give an even number, half of them on either side")
    return nx.circulant_graph(nodes, range(1, min(count // 2, nodes // 2) + 1))


def star(nodes: int) -> nx.Graph:
    """Link node 0 with every other."""
    return nx.star_graph(check_whole("nodes", nodes, 1) - 1)


def random_regular(nodes: int, degree: int = DEGREE, *, seed: int = 0) -> nx.Graph:
    """Link every node with `degree` others, drawn at random so that all are connected.

    Raises UserError: there is no such graph, since the degree is not below the number of nodes,
    both are odd, or a degree of 1 leaves pairs.
    """
    nodes, degree = check_whole("nodes", nodes, 1), check_whole("degree", degree, 0)
    seed = check_whole("seed", seed, 0)
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

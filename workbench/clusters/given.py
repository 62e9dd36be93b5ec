"""Nodes and links as users give them to a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.clusters.node import Node


def check_nodes(nodes: Any) -> tuple[Node, ...]:
    """Return nodes as a tuple.

    Raises
    ------
    ValueError
        A single node, or anything in the list that is no node.
    """
    if isinstance(nodes, str | Node) or not isinstance(nodes, Iterable):
        what = f"the one node {nodes.name!r}" if isinstance(nodes, Node) else repr(nodes)
        raise ValueError(f"nodes is {what}; give a list of them, such as [Node('a'), Node('b')]")
    found = tuple(nodes)
    for place, node in enumerate(found):
        if not isinstance(node, Node):
            made = f"Node({node!r})" if isinstance(node, str) else "a Node"
            raise ValueError(f"node {place} is {node!r}; give {made}")
    return found


def link_items(links: Any) -> Iterable[tuple[tuple[Any, Any], Any]]:
    """Go through the ((source, target), link) of a cluster's links; None has none.

    Raises
    ------
    ValueError
        No mapping, or a key that is no pair.
    """
    example = "{('a', 'b'): Link(bandwidth_bps=1e6)}"
    if links is not None and not isinstance(links, Mapping):
        raise ValueError(f"links is {links!r}; map pairs of nodes to links, such as {example}")
    for ends, link in (links or {}).items():
        if not (isinstance(ends, tuple) and len(ends) == 2):
            raise ValueError(
                f"a link leads from and to {ends!r}; give (source, target), such as {example}"
            )
        yield ends, link

"""Checks of a cluster's nodes and links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.checks import listed, whole
from workbench.clusters.link import Link
from workbench.clusters.node import Node
from workbench.errors import UserError


def check_nodes(nodes: Any) -> tuple[Node, ...]:
    """Return nodes as a tuple."""
    instead = "give a list of them, such as [Node('a'), Node('b')]"
    if isinstance(nodes, Node):
        raise UserError(f"nodes is the one node {nodes.name!r}; {instead}")
    found = listed("nodes", nodes, instead)
    for place, node in enumerate(found):
        if not isinstance(node, Node):
            made = f"Node({node!r})" if isinstance(node, str) else "a Node"
            raise UserError(f"node {place} is {node!r}; give {made}")
    return found


def link_items(links: Any) -> Iterable[tuple[tuple[Any, Any], Any]]:
    """Iterate over a cluster's links as ((source, target), link); None has none."""
    example = "{('a', 'b'): Link(bandwidth_bps=1e6)}"
    if links is not None and not isinstance(links, Mapping):
        raise UserError(f"links is {links!r}; map pairs of nodes to links, such as {example}")
    for ends, link in (links or {}).items():
        if not (isinstance(ends, tuple) and len(ends) == 2):
            raise UserError(
                f"a link leads from and to {ends!r}; give (source, target), such as {example}"
            )
        yield ends, link


def check_pairs(pairs: Any) -> list[tuple[int | str, int | str]]:
    """Return pairs of nodes, each by its index or name."""
    example = "such as [(0, 1), (1, 2)] or [('a', 'b')]"
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise UserError(f"pairs is {pairs!r}; give pairs of nodes, {example}")
    found = []
    for place, value in enumerate(pairs):
        pair = () if isinstance(value, str | Mapping) or not isinstance(value, Iterable) else value
        ends = tuple(pair)
        if len(ends) != 2 or any(not isinstance(end, str) and whole(end) is None for end in ends):
            raise UserError(f"pair {place} is {value!r}; give pairs of nodes, {example}")
        found.append(ends)
    return found


def check_link(name: str, link: Any) -> Link:
    """Return a link as it is."""
    if not isinstance(link, Link):
        raise UserError(f"{name} is {link!r}; give a Link, such as Link(bandwidth_bps=1e6)")
    return link

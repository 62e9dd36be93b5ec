"""Machines and the links between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.checks import whole
from workbench.clusters.checks import check_link, check_nodes, link_items
from workbench.clusters.link import Link
from workbench.clusters.node import Node
from workbench.errors import UserError
from workbench.names import check_name

if TYPE_CHECKING:
    import polars as pl

Name = int | str
"""A node by its index or its name."""


class UnknownNodeError(UserError):
    """No such node in the cluster; the message lists those that exist."""


class MissingLinkError(UserError):
    """No link leads from one node to the other; the message lists where links lead."""


@dataclass(frozen=True)
class Cluster:
    """Nodes, and directed links between them.

    Parameters
    ----------
    nodes
        The machines; programs know them by their index.
    links
        (source, target) -> `Link`, each node by its index or name, one for each direction. Kept by
        indices, in ascending order.

    Raises
    ------
    ValueError
        No nodes, or two of one name; something that is no node or link.
    UnknownNodeError
        A link from or to a node that does not exist.

    See Also
    --------
    workbench.clusters.shapes : the usual shapes.
    """

    nodes: tuple[Node, ...]
    links: Mapping[tuple[int, int], Link] = field(default_factory=dict)

    def __init__(
        self, nodes: Sequence[Node], links: Mapping[tuple[Name, Name], Link] | None = None
    ) -> None:
        object.__setattr__(self, "nodes", check_nodes(nodes))
        if not self.nodes:
            raise UserError("a cluster needs at least one node")
        twice = sorted(name for name, count in Counter(self.names).items() if count > 1)
        if twice:
            raise UserError(f"two nodes are called {twice[0]!r}; names must differ")
        found: dict[tuple[int, int], Link] = {}
        for (source, target), link in link_items(links):
            pair = self.index(source), self.index(target)
            if not isinstance(link, Link):
                check_link(f"the link from {self.names[pair[0]]} to {self.names[pair[1]]}", link)
            if pair[0] == pair[1]:
                raise UserError(
                    f"a link leads from {self.nodes[pair[0]].name} to itself; a node's messages "
                    "to itself need none"
                )
            if pair in found:
                raise UserError(f"two links lead from {source} to {target}; give one")
            found[pair] = link
        object.__setattr__(self, "links", {pair: found[pair] for pair in sorted(found)})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes, by index."""
        return tuple(node.name for node in self.nodes)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def _targets(self) -> list[tuple[int, ...]]:
        leads: list[list[int]] = [[] for _ in self.nodes]
        for source, target in self.links:
            leads[source].append(target)
        return [tuple(targets) for targets in leads]

    def __len__(self) -> int:
        return len(self.nodes)

    def index(self, node: Name) -> int:
        """Index of a node by index or name.

        Raises UnknownNodeError: no such node.
        """
        if isinstance(node, str):
            if node not in self._places:
                try:
                    check_name("node", node, self.names)
                except ValueError as error:
                    raise UnknownNodeError(str(error)) from None
            return self._places[node]
        index = whole(node)
        if index is None or not 0 <= index < len(self.nodes):
            raise UnknownNodeError(
                f"unknown node {node!r}: the cluster has nodes 0 to {len(self.nodes) - 1} "
                f"({_some(self.names)})"
            )
        return index

    def link(self, source: Name, target: Name) -> Link:
        """Link from one node to another.

        Raises UnknownNodeError, MissingLinkError: no such node, or no link between the two in this
        direction.
        """
        pair = self.index(source), self.index(target)
        if pair not in self.links:
            leads = [self.names[index] for index in self.targets(pair[0])]
            raise MissingLinkError(
                f"no link leads from {self.names[pair[0]]} to {self.names[pair[1]]}; links lead "
                f"from {self.names[pair[0]]} to: {_some(leads) or 'nowhere'}. Add "
                f"({self.names[pair[0]]!r}, {self.names[pair[1]]!r}) to the cluster's links"
            )
        return self.links[pair]

    def targets(self, source: Name) -> tuple[int, ...]:
        """Nodes that links from `source` lead to, ascending."""
        return self._targets[self.index(source)]

    def table(self) -> pl.DataFrame:
        """One row per link: ``source, target, link`` as text."""
        import polars as pl

        return pl.DataFrame(
            [
                (self.names[source], self.names[target], str(link))
                for (source, target), link in self.links.items()
            ],
            schema={"source": pl.String, "target": pl.String, "link": pl.String},
            orient="row",
        )

    def __str__(self) -> str:
        lines = [f"{len(self.nodes)} nodes, {len(self.links)} links"]
        lines += [f"  {index}: {node}" for index, node in enumerate(self.nodes)]
        kinds: dict[str, list[str]] = {}
        for (source, target), link in self.links.items():
            kinds.setdefault(str(link), []).append(f"{self.names[source]}>{self.names[target]}")
        lines += [f"  {kind}: {_some(pairs)}" for kind, pairs in kinds.items()]
        return "\n".join(lines)


def check_cluster(cluster: object) -> Cluster:
    """Return a cluster as it is; a ValueError for anything else."""
    if not isinstance(cluster, Cluster):
        raise UserError(f"cluster is {cluster!r}; give a Cluster")
    return cluster


def _some(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

"""Machines and the links between them, and the usual shapes of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from typing import NoReturn

from workbench.clusters.link import Link
from workbench.clusters.node import Node
from workbench.utils.checks import UserError, check_truth, check_whole, listed, unknown, whole

Name = int | str
"""A node by its index or its name."""

NODES = "give a list of them, such as [Node('a'), Node('b')]"
LINKS = "{('a', 'b'): Link(bandwidth_bps=1e6)}"
"""Examples for errors."""


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
    raw_samples_may_leave
        Whether samples may be sent from the node that holds them to another one.

    Raises
    ------
    ValueError
        No nodes, or two of one name; anything but nodes and links.
    UnknownNodeError
        A link from or to a node that does not exist.

    See Also
    --------
    star, full_mesh, graph : the usual shapes.
    """

    nodes: tuple[Node, ...]
    links: Mapping[tuple[int, int], Link] = field(default_factory=dict)
    raw_samples_may_leave: bool = True

    def __init__(
        self,
        nodes: Sequence[Node],
        links: Mapping[tuple[Name, Name], Link] | None = None,
        *,
        raw_samples_may_leave: bool = True,
    ) -> None:
        check_truth("raw_samples_may_leave", raw_samples_may_leave)
        object.__setattr__(self, "raw_samples_may_leave", bool(raw_samples_may_leave))
        object.__setattr__(self, "nodes", listed("nodes", nodes, NODES))
        if not self.nodes:
            raise UserError("a cluster needs at least one node")
        for place, node in enumerate(self.nodes):
            if not isinstance(node, Node):
                raise UserError(f"node {place} is {node!r}; give a Node, such as Node('a')")
        name, count = Counter(self.names).most_common(1)[0]
        if count > 1:
            raise UserError(f"two nodes are called {name!r}; names must differ")
        if not isinstance(links, Mapping | None):
            raise UserError(f"links is {links!r}; map pairs of nodes to links, such as {LINKS}")
        by_pair: dict[tuple[int, int], Link] = {}
        for ends, link in (links or {}).items():
            if not (isinstance(ends, tuple) and len(ends) == 2):
                raise UserError(f"{ends!r} is not a pair of nodes; links are such as {LINKS}")
            source, target = pair = self.index(ends[0]), self.index(ends[1])
            if source == target or pair in by_pair or not isinstance(link, Link):
                _refuse_link(self.names[source], self.names[target], link)
            by_pair[pair] = link
        object.__setattr__(self, "links", dict(sorted(by_pair.items(), key=lambda item: item[0])))

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
        if type(node) is int and 0 <= node < len(self.nodes):
            return node
        if isinstance(node, str):
            if node not in self._places:
                raise UnknownNodeError(unknown("node", node, self.names))
            return self._places[node]
        index = whole(node)
        if index is None or not 0 <= index < len(self.nodes):
            raise UnknownNodeError(
                f"unknown node {node!r}: the cluster has nodes 0 to {len(self.nodes) - 1} "
                f"({some(self.names)})"
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
                f"from {self.names[pair[0]]} to: {some(leads) or 'nowhere'}. Add "
                f"({self.names[pair[0]]!r}, {self.names[pair[1]]!r}) to the cluster's links"
            )
        return self.links[pair]

    def targets(self, source: Name) -> tuple[int, ...]:
        """Nodes that links from `source` lead to, ascending."""
        return self._targets[self.index(source)]

    def __str__(self) -> str:
        lines = [f"{len(self.nodes)} nodes, {len(self.links)} links"]
        lines += [f"  {index}: {node}" for index, node in enumerate(self.nodes)]
        kinds: dict[str, list[str]] = {}
        for (source, target), link in self.links.items():
            kinds.setdefault(str(link), []).append(f"{self.names[source]}>{self.names[target]}")
        lines += [f"  {kind}: {some(pairs)}" for kind, pairs in kinds.items()]
        return "\n".join(lines)


def _refuse_link(source: str, target: str, link: object) -> NoReturn:
    if source == target:
        raise UserError(f"a link leads from {source} to itself; messages to itself need none")
    if not isinstance(link, Link):
        raise UserError(f"the link from {source} to {target} is {link!r}; give a Link")
    raise UserError(f"two links lead from {source} to {target}; give one")


def check_cluster(cluster: object) -> Cluster:
    """Return a cluster as it is; a ValueError for anything else."""
    if not isinstance(cluster, Cluster):
        raise UserError(f"cluster is {cluster!r}; give a Cluster")
    return cluster


def some(names: Sequence[str], most: int = 12) -> str:
    """Join names, and count those beyond the first `most`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def star(
    workers: int | Sequence[Node],
    servers: int | Sequence[Node],
    up: Link,
    down: Link | None = None,
) -> Cluster:
    """Every worker linked with every server, both ways; workers come first.

    `workers` and `servers` are the nodes, or how many: then ``worker0, ...`` and ``server0, ...``.
    `up` is every link from a worker to a server, `down` back, as `up` by default.
    """
    ends, hubs = _members("worker", workers), _members("server", servers)
    if not (ends and hubs):
        raise UserError(
            f"a star has {len(ends)} workers and {len(hubs)} servers; give at least one of each"
        )
    links: dict[tuple[Name, Name], Link] = {}
    for worker, server in product(range(len(ends)), range(len(ends), len(ends) + len(hubs))):
        links[worker, server] = up
        links[server, worker] = up if down is None else down
    return Cluster([*ends, *hubs], links)


def full_mesh(nodes: int | Sequence[Node], link: Link) -> Cluster:
    """Every node linked with every other, both ways; a number makes ``node0, node1, ...``."""
    ends = _members("node", nodes)
    return graph(ends, combinations(range(len(ends)), 2), link)


def graph(nodes: int | Sequence[Node], pairs: Iterable[tuple[Name, Name]], link: Link) -> Cluster:
    """Nodes of which these pairs are linked, both ways, each by a link like `link`."""
    links: dict[tuple[Name, Name], Link] = {}
    try:
        for first, second in pairs:
            links[first, second] = links[second, first] = link
    except (TypeError, ValueError):
        raise UserError(
            f"pairs is {pairs!r}; give pairs of nodes, such as [(0, 1), (1, 2)] or [('a', 'b')]"
        ) from None
    return Cluster(_members("node", nodes), links)


def _members(prefix: str, nodes: int | Sequence[Node]) -> list[Node]:
    """Return the nodes, or for a number as many equal ones, called `prefix`0, `prefix`1, ..."""
    if whole(nodes) is None:
        return list(listed("nodes", nodes, NODES))
    return [Node(f"{prefix}{at}") for at in range(check_whole(f"number of {prefix}s", nodes, 0))]

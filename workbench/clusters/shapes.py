"""The usual shapes of clusters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.checks import whole
from workbench.clusters.checks import check_link, check_nodes, check_pairs
from workbench.clusters.cluster import Cluster, Name
from workbench.clusters.link import Link
from workbench.clusters.node import Node
from workbench.errors import UserError


def named(prefix: str, count: int) -> list[Node]:
    """Make `count` equal nodes, called `prefix`0, `prefix`1, ..."""
    return [Node(f"{prefix}{index}") for index in range(count)]


def members(prefix: str, nodes: int | Sequence[Node]) -> list[Node]:
    """Return the nodes, or for a number as many new ones."""
    count = whole(nodes)
    if count is None:
        return list(check_nodes(nodes))
    if count < 0:
        raise UserError(f"{count} nodes called {prefix}; give how many, at least 0")
    return named(prefix, count)


def star(
    workers: int | Sequence[Node],
    servers: int | Sequence[Node],
    up: Link,
    down: Link | None = None,
) -> Cluster:
    """Every worker linked with every server, both ways; workers come first.

    `workers` and `servers` are the nodes, or how many: then ``worker0, ...`` and ``server0, ...``.
    `up` is every link from a worker to a server, `down` back, as `up` by default.

    Raises ValueError: no workers, no servers, or what is no node or link.
    """
    ends, hubs = members("worker", workers), members("server", servers)
    if not (ends and hubs):
        raise UserError(
            f"a star has {len(ends)} workers and {len(hubs)} servers; give at least one of each"
        )
    links: dict[tuple[Name, Name], Link] = {}
    for worker in range(len(ends)):
        for server in range(len(ends), len(ends) + len(hubs)):
            links[worker, server] = up
            links[server, worker] = up if down is None else down
    return Cluster([*ends, *hubs], links)


def full_mesh(nodes: int | Sequence[Node], link: Link) -> Cluster:
    """Every node linked with every other, both ways; a number makes ``node0, node1, ...``."""
    check_link("link", link)
    ends = members("node", nodes)
    pairs = [(one, two) for one in range(len(ends)) for two in range(one)]
    return graph(ends, pairs, link)


def graph(nodes: int | Sequence[Node], pairs: Iterable[tuple[Name, Name]], link: Link) -> Cluster:
    """Nodes of which these pairs are linked, both ways, each by a link like `link`.

    Raises ValueError: pairs that are none, of nodes that do not exist, or what is no node or link.
    """
    check_link("link", link)
    links: dict[tuple[Name, Name], Link] = {}
    for one, two in check_pairs(pairs):
        links[one, two] = links[two, one] = link
    return Cluster(members("node", nodes), links)

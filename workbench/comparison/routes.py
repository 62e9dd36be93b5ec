"""Routes between the nodes of a cluster, and clusters with a link for each route."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, permutations

import networkx as nx

from workbench.clusters import Cluster, Link, Node, Schedule, SharedCapacity

Pair = tuple[int, int]
Crossed = tuple[str, int, int]
"""A ``link`` between two nodes, or the ``uplink`` or ``downlink`` of a node, which stands twice."""


@dataclass(frozen=True, eq=False)
class Routes:
    """Paths between all nodes of a cluster: those on which a model arrives first.

    Attributes
    ----------
    cluster
        A cluster whose links connect all nodes, directly or through other nodes.
    model_bytes
        Size of the model.
    """

    cluster: Cluster
    model_bytes: float

    def hop_bps(self, hop: Pair) -> float:
        """Bandwidth of a link at the beginning, limited by the interfaces at its ends."""
        source, target = (self.cluster.nodes[node] for node in hop)
        link = self.cluster.links[hop]
        limits = [source.uplink, target.downlink, *(capacity.bandwidth for capacity in link.shared)]
        return min([link_bps(link), *(at_beginning(limit) for limit in limits if limit)])

    @cached_property
    def _hops_bps(self) -> Mapping[Pair, float]:
        return {hop: self.hop_bps(hop) for hop in self.cluster.links}

    def path_bps(self, source: int, target: int) -> float:
        """Bandwidth of the path between two nodes at the beginning, if nobody else sends."""
        return min(self._hops_bps[hop] for hop in pairwise(self.paths[source, target]))

    @cached_property
    def paths(self) -> Mapping[Pair, tuple[int, ...]]:
        """(source, target) -> nodes on the path on which a model arrives first."""
        return _Paths(self)

    @cached_property
    def _graph(self) -> nx.DiGraph:
        """Links weighted by the seconds of a model, with neighbours in the order of their names."""
        graph = nx.DiGraph()
        names = self.cluster.names
        by_name = sorted(range(len(names)), key=names.__getitem__)
        graph.add_nodes_from(by_name)
        place = {node: at for at, node in enumerate(by_name)}
        links = self.cluster.links
        for source, target in sorted(links, key=lambda pair: (place[pair[0]], place[pair[1]])):
            link, rate = links[source, target], self._hops_bps[source, target]
            seconds = link.overhead_s + link.latency_s + 8 * self.model_bytes / rate
            graph.add_edge(source, target, weight=seconds)
        return graph

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, with their interfaces limited by their link where they have only one."""
        leaving, coming = (defaultdict[int, list[Link]](list) for _ in range(2))
        for (source, target), link in self.cluster.links.items():
            leaving[source].append(link)
            coming[target].append(link)
        return tuple(
            replace(
                node,
                uplink_bps=_interface(node.uplink, leaving[at]),
                downlink_bps=_interface(node.downlink, coming[at]),
            )
            for at, node in enumerate(self.cluster.nodes)
        )

    def link(self, source: int, target: int) -> Link:
        """A path as one link.

        Nodes on the path forward a message packet by packet: its bandwidth is that of the narrowest
        link, overheads and latencies add up. `part` adds what messages share with each other.
        """
        path = self.paths[source, target]
        hops = [self.cluster.links[hop] for hop in pairwise(path)]
        if len(hops) == 1:
            return hops[0]
        limits = self._limits
        alike = tuple(map(id, hops)), tuple(limits[node] for node in path)
        if alike not in self._joined:
            self._joined[alike] = _joined(hops, [self.cluster.nodes[node] for node in path])
        return self._joined[alike]

    @cached_property
    def _limits(self) -> Sequence[tuple[object, object]]:
        return [(node.uplink_bps, node.downlink_bps) for node in self.cluster.nodes]

    @cached_property
    def _joined(self) -> dict[object, Link]:
        return {}

    def part(
        self,
        nodes: Sequence[int],
        speeds: Sequence[float] | None = None,
        pairs: Iterable[Pair] | None = None,
    ) -> Cluster:
        """The cluster of these nodes, in this order, with other speeds if given.

        It has a link for the path between each two of them, or for those of `pairs` alone. Messages
        share all links and interfaces that they pass.
        """
        place = {node: at for at, node in enumerate(nodes)}
        chosen_pairs = permutations(nodes, 2) if pairs is None else pairs
        links = {pair: self.link(*pair) for pair in chosen_pairs}
        for pair, shared in self._shared(links).items():
            links[pair] = replace(links[pair], shared=links[pair].shared + tuple(shared))
        leaving, coming = Counter(a for a, _ in links), Counter(b for _, b in links)
        chosen = [
            self._node(node, shares_uplink=leaving[node] > 1, shares_downlink=coming[node] > 1)
            for node in nodes
        ]
        if speeds is not None:
            scaled = zip(chosen, speeds, strict=True)
            chosen = [replace(node, speed=speed) for node, speed in scaled]
        by_place = {(place[a], place[b]): link for (a, b), link in links.items()}
        return replace(self.cluster, nodes=tuple(chosen), links=by_place)

    def _node(self, node: int, *, shares_uplink: bool, shares_downlink: bool) -> Node:
        """A node; an interface that one link has to itself is as wide as the node states."""
        own, limited = self.cluster.nodes[node], self.nodes[node]
        return replace(
            own,
            uplink_bps=(limited if shares_uplink else own).uplink_bps,
            downlink_bps=(limited if shares_downlink else own).downlink_bps,
        )

    def _shared(self, pairs: Iterable[Pair]) -> Mapping[Pair, Sequence[SharedCapacity]]:
        """Capacities that each pair shares with others, other than interfaces at its own ends."""
        users: defaultdict[Crossed, list[Pair]] = defaultdict(list)
        for pair in pairs:
            for crossed in self._crossed(self.paths[pair]):
                users[crossed].append(pair)
        nodes, links = self.cluster.nodes, self.cluster.links
        shared: defaultdict[Pair, list[SharedCapacity]] = defaultdict(list)
        for (kind, a, b), sharing in users.items():
            from_a = all(source == a for source, _ in sharing)
            to_b = all(target == b for _, target in sharing)
            bandwidth: float | Schedule | None
            if kind == "uplink":
                at_an_end, bandwidth = from_a, nodes[a].uplink
            elif kind == "downlink":
                at_an_end, bandwidth = to_b, nodes[b].downlink
            else:
                at_an_end = (from_a and self._out[a] == 1) or (to_b and self._into[b] == 1)
                bandwidth = links[a, b].bandwidth
            if len(sharing) > 1 and not at_an_end and bandwidth not in (None, math.inf):
                capacity = SharedCapacity(bandwidth)
                for pair in sharing:
                    shared[pair].append(capacity)
        return shared

    def _crossed(self, path: Sequence[int]) -> Iterator[Crossed]:
        """Links and interfaces on a path; for a node with a single neighbour they are the same."""
        for a, b in pairwise(path):
            inside = a not in self._leaves, b not in self._leaves
            if inside[0]:
                yield "uplink", a, a
            if all(inside):
                yield "link", a, b
            if inside[1]:
                yield "downlink", b, b

    @cached_property
    def _leaves(self) -> frozenset[int]:
        graph = nx.Graph(self.cluster.links.keys())
        return frozenset(node for node, neighbours in graph.degree if neighbours == 1)

    @cached_property
    def _out(self) -> Mapping[int, int]:
        return Counter(source for source, _ in self.cluster.links)

    @cached_property
    def _into(self) -> Mapping[int, int]:
        return Counter(target for _, target in self.cluster.links)


class _Paths(dict[Pair, tuple[int, ...]]):
    """Shortest paths, each computed at its first use."""

    def __init__(self, routes: Routes) -> None:
        self._graph, self._from = routes._graph, dict[int, dict[int, list[int]]]()

    def __missing__(self, pair: Pair) -> tuple[int, ...]:
        source, target = pair
        near = list(self._graph[source])
        if target in near and len(near) == 1:
            path: tuple[int, ...] = pair
        elif len(near) == 1:  # all paths lead that way
            path = source, *self[near[0], target]
        else:
            if source not in self._from:
                self._from[source] = nx.single_source_dijkstra_path(self._graph, source)
            path = tuple(self._from[source][target])
        self[pair] = path
        return path


def link_bps(link: Link) -> float:
    """Bandwidth of a link at the beginning."""
    bandwidth = link.bandwidth
    if isinstance(bandwidth, Schedule):
        return at_beginning(bandwidth)
    return bandwidth


def at_beginning(schedule: Schedule) -> float:
    """Value of a schedule at the beginning; after an outage there, the first above 0."""
    return next(value for value in schedule.values if value > 0)


def _interface(own: Schedule | None, links: Sequence[Link]) -> float | Schedule | None:
    """Capacity of an interface: its own limit, and its link's bandwidth if it has only one."""
    if len(links) != 1:
        return own
    return _narrowest([links[0].bandwidth, *([] if own is None else [own])])


def _joined(hops: Sequence[Link], nodes: Sequence[Node]) -> Link:
    """A path's hops as one link, limited by the interfaces of all nodes on it."""
    interfaces = [*(node.uplink for node in nodes[:-1]), *(node.downlink for node in nodes[1:])]
    limits = [limit for limit in interfaces if limit is not None]
    return Link(
        _narrowest([*(hop.bandwidth for hop in hops), *limits]),
        overhead_s=sum(hop.overhead_s for hop in hops),
        latency_s=sum(hop.latency_s for hop in hops),
        shared=tuple(shared for hop in hops for shared in hop.shared),
    )


def _narrowest(limits: Sequence[float | Schedule]) -> float | Schedule:
    """The least of several bandwidths at each time."""
    numbers = [limit for limit in limits if not isinstance(limit, Schedule)]
    schedules = [limit for limit in limits if isinstance(limit, Schedule)]
    if not schedules:
        return min(numbers)
    starts_s = sorted({start_s for limit in schedules for start_s in limit.starts_s})
    least = [min(*numbers, *(limit.at(at_s) for limit in schedules), math.inf) for at_s in starts_s]
    return least[0] if len(least) == 1 else Schedule(tuple(starts_s), tuple(least))

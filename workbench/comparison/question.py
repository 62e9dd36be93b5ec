"""What is asked: one model on one cluster, and how each node reaches the others."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise, permutations

import networkx as nx
import polars as pl

from workbench.clusters import Cluster, Link, Node, Schedule, SharedCapacity
from workbench.clusters.cluster import some
from workbench.comparison.memory import NodeMemory, StepMemory
from workbench.profiles import LayerTimes, ModelProfile
from workbench.utils.checks import UserError, check_kind, check_name, check_whole

Pair = tuple[int, int]
Crossed = tuple[str, int, int]
"""A link from a node to another, or the ``uplink`` or ``downlink`` of a node, given twice."""

USUAL_SAMPLES = 1000
"""Samples of each node, if the cluster does not say how many any node holds."""

MOST_S = 1e12
"""Of a batch: thirty thousand years."""


class UnusableError(UserError):
    """A way of training that this cluster does not allow; the message says why."""


@dataclass(frozen=True, eq=False)
class Question:
    """One model on one cluster, the same for all ways of training.

    Attributes
    ----------
    profile
        The model.
    cluster
        Nodes with ``flops_per_s``, and links over which each node reaches all others.
    batch_size
        Samples of each worker in an iteration.
    times
        Measured seconds by layer, by the name of a node: taken in place of its ``flops_per_s``.
    memory
        What a step needs, by the samples in it (`memory_of`); None if that is not known.
    epochs
        Length of the training that rates are means over.

    Raises
    ------
    UserError
        Neither speed nor times of a node; times of other layers, or of an unknown node; a node
        that does not reach all others.
    """

    profile: ModelProfile
    cluster: Cluster
    batch_size: int = 32
    times: Mapping[str, LayerTimes] | None = None
    memory: StepMemory | None = None
    epochs: int = 10

    def __post_init__(self) -> None:
        check_kind("profile", self.profile, ModelProfile, "profile_model(name or module)")
        check_kind("cluster", self.cluster, Cluster, "a Cluster, such as load_cluster(path)")
        for name in ("batch_size", "epochs"):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), 1))
        if not isinstance(self.times, Mapping | None):
            raise UserError(f"times is {self.times!r}; give layer times by the name of a node")
        measured = dict(self.times or {})
        for name, times in measured.items():
            check_name("node", name, self.cluster.names)
            check_kind(f"times of {name}", times, LayerTimes, "LayerTimes, such as a saved file's")
            if times.layers != self.profile.layers:
                raise UserError(
                    f"the times of {name} are of other layers than {self.profile.name} has; "
                    "profile the same model there"
                )
        for node in self.cluster.nodes:
            if node.flops_per_s is None and node.name not in measured:
                raise UserError(
                    f"{node.name} has neither gflops nor measured times; give what it sustains in "
                    "training, or profile the model on it: workbench profile --measure --save"
                )
            if not (batch_s := self._plain_s(node)) < MOST_S:
                raise UserError(
                    f"{node.name} would take {batch_s:.3g} s for a batch; give the gflops that it "
                    "sustains in training"
                )
        graph = nx.DiGraph(self.cluster.links.keys())
        graph.add_nodes_from(range(len(self.cluster)))
        if nx.is_strongly_connected(graph):
            return
        for source, name in enumerate(self.cluster.names):
            for target in sorted({*graph} - {source} - nx.descendants(graph, source)):
                raise UserError(
                    f"no links lead from {name} to {self.cluster.names[target]}; every node has to "
                    "reach all others, if by way of others: add links"
                )

    def _plain_s(self, node: Node) -> float:
        """Seconds of a batch at speed 1."""
        measured = (self.times or {}).get(node.name)
        if measured is not None:
            each_s = (measured.forward_s + measured.backward_s) / measured.batch_size
            return self.batch_size * each_s
        flops = self.profile.table.select("forward_flops", "backward_flops").sum().sum_horizontal()
        return self.batch_size * float(flops.item()) / (node.flops_per_s or math.inf)

    @property
    def model_bytes(self) -> int:
        """Bytes of all trained parameters, and of a gradient."""
        return int(self.profile.table["param_bytes"].sum())

    @property
    def sample_bytes(self) -> float:
        """Bytes of a raw sample as the model takes it."""
        return float(self.profile.sample_bytes)

    def needed_bytes(self, samples: int, *, serves: bool = False) -> float | None:
        """Memory of a step by its samples; None if it is not known.

        A server, a node of 0 samples or one that `serves` as well, keeps parameters and gradients.
        """
        if self.memory is None:
            return None
        step_bytes = self.memory(samples) if samples else 0.0
        return step_bytes + (2.0 * self.model_bytes if serves or not samples else 0.0)

    def fits(self, node: int, samples: int, *, serves: bool = False) -> bool:
        """Whether a node has the memory for a step; True where either is not known."""
        found = self.node_memory(node, samples, serves=serves)
        return found is None or found.fits is not False

    def node_memory(self, node: int, samples: int, *, serves: bool = False) -> NodeMemory | None:
        """What a step takes of a node's memory, as for `needed_bytes`; None if not known."""
        needed = self.needed_bytes(samples, serves=serves)
        if needed is None:
            return None
        room = self.cluster.nodes[node].memory_bytes
        return NodeMemory(needed, None if room is None else needed <= room)

    @cached_property
    def by_name(self) -> tuple[int, ...]:
        """All nodes by their names: what is found does not depend on the order of a file."""
        return tuple(sorted(range(len(self.cluster)), key=self.cluster.names.__getitem__))

    @property
    def unlike(self) -> tuple[int, ...]:
        """The first by name of all nodes that differ in their names alone."""
        return tuple(dict.fromkeys(self.first_alike.values()))

    @cached_property
    def first_alike(self) -> Mapping[int, int]:
        """Node -> the first by name of all that differ from it in their names alone.

        Such have the same links with the same neighbours, but for one with each other.
        """
        links: defaultdict[int, list[tuple[int, bool, Link]]] = defaultdict(list)
        for (source, target), link in self.cluster.links.items():
            links[source].append((target, True, link))
            links[target].append((source, False, link))
        first, alike = dict[object, int](), dict[int, int]()
        for node in self.by_name:
            kinds = {(out, link) for _, out, link in links[node]}
            keys: list[object] = [(self.kind(node), frozenset(links[node]))]
            if len(kinds) <= 2:  # one kind out, one in: neighbours of each other may be alike
                near = {(other, out) for other, out, _ in links[node]}
                near |= {(node, True), (node, False)}
                keys.append((self.kind(node), frozenset(near), frozenset(kinds)))
            alike[node] = next((first[key] for key in keys if key in first), node)
            for key in keys:
                first.setdefault(key, alike[node])
        return alike

    def kind(self, node: int) -> tuple[Node, int]:
        """What a node is but for its name and links: equal where nodes do not differ in it."""
        own = self.cluster.nodes[node]
        return replace(own, name="any"), id((self.times or {}).get(own.name))

    @cached_property
    def holders(self) -> tuple[int, ...]:
        """Nodes that hold samples, by their names; all nodes, if the cluster names no holder."""
        holding = tuple(node for node in self.by_name if self.cluster.nodes[node].samples)
        return holding or self.by_name

    @cached_property
    def samples(self) -> Mapping[int, int]:
        """Holder -> samples that it holds."""
        return {node: self.cluster.nodes[node].samples or USUAL_SAMPLES for node in self.holders}

    def share(self, nodes: Collection[int]) -> float:
        """Share of all samples that these nodes hold."""
        held = sum(self.samples.get(node, 0) for node in nodes)
        return held / sum(self.samples.values())

    def assumes(self, learns_from: Collection[int]) -> tuple[str, ...]:
        """What is assumed of samples and times by a way that learns from those of some nodes."""
        found = [
            f"times of {name} were measured with batches of {times.batch_size} and are scaled"
            for name, times in sorted((self.times or {}).items())
            if times.batch_size != self.batch_size
        ]
        if not any(node.samples for node in self.cluster.nodes):
            found.append(f"every node holds {USUAL_SAMPLES:,} samples, since none says how many")
        else:
            out = [self.cluster.names[node] for node in self.holders if node not in learns_from]
            found += [f"not learnt from: the samples of {some(out)}"] if out else []
        return tuple(found)

    def layer_times(self, node: int, batch_size: int | None = None) -> LayerTimes:
        """Seconds by layer of a node at speed 1, for a batch."""
        about = node, batch_size or self.batch_size
        if about not in self._layer_times:
            self._layer_times[about] = self._timed(*about)
        return self._layer_times[about]

    @cached_property
    def _layer_times(self) -> dict[tuple[int, int], LayerTimes]:
        return {}

    def _timed(self, node: int, size: int) -> LayerTimes:
        at = self.cluster.nodes[node]
        measured = (self.times or {}).get(at.name)
        if measured is None:
            assert at.flops_per_s is not None
            return _analytic(self.profile, at.flops_per_s, size)
        factor = size / measured.batch_size
        scaled = pl.col("forward_s", "backward_s") * factor
        return replace(measured, batch_size=size, table=measured.table.with_columns(scaled))

    @cached_property
    def speeds(self) -> tuple[float, ...]:
        """Of the nodes, as they are at the beginning."""
        return tuple(at_beginning(node.speed_over_time) for node in self.cluster.nodes)

    def batch_s(self, node: int, samples: int | None = None) -> float:
        """Seconds that a node takes to learn from a batch: forward, backward and update."""
        times = self.layer_times(node, samples)
        return (times.forward_s + times.backward_s + times.update_s) / self.speeds[node]

    @cached_property
    def sample_s(self) -> tuple[float, ...]:
        """Seconds by node to learn from one sample in a batch, without the update."""
        return tuple(
            (times.forward_s + times.backward_s) / self.speeds[node] / self.batch_size
            for node, times in enumerate(map(self.layer_times, range(len(self.cluster))))
        )

    def hop_bps(self, hop: Pair) -> float:
        """What a link carries at the beginning, within the interfaces at its ends."""
        source, target = (self.cluster.nodes[node] for node in hop)
        link = self.cluster.links[hop]
        limits = [source.uplink, target.downlink, *(each.bandwidth for each in link.shared)]
        return min([link_bps(link), *(at_beginning(limit) for limit in limits if limit)])

    @cached_property
    def _hops_bps(self) -> Mapping[Pair, float]:
        return {hop: self.hop_bps(hop) for hop in self.cluster.links}

    def path_bps(self, source: int, target: int) -> float:
        """What a path carries from one node to another at the beginning, if nobody else sends."""
        return min(self._hops_bps[hop] for hop in pairwise(self.paths[source, target]))

    @cached_property
    def paths(self) -> Mapping[Pair, tuple[int, ...]]:
        """(source, target) -> nodes on the path by which a model arrives first."""
        return _Paths(self)

    @cached_property
    def _graph(self) -> nx.DiGraph:
        """Links with the seconds of a model; neighbours in the order of their names."""
        graph = nx.DiGraph()
        graph.add_nodes_from(self.by_name)
        place = {node: at for at, node in enumerate(self.by_name)}
        links = self.cluster.links
        for source, target in sorted(links, key=lambda pair: (place[pair[0]], place[pair[1]])):
            link, rate = links[source, target], self._hops_bps[source, target]
            seconds = link.overhead_s + link.latency_s + 8 * self.model_bytes / rate
            graph.add_edge(source, target, weight=seconds)
        return graph

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes with the capacities of their interfaces: its link's, if a node has only one."""
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

        A message passes nodes on its way as packets do: the narrowest link decides, overheads and
        latencies add up. What it shares with other messages, `part` knows.
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
        """The cluster of these nodes alone, in this order, with other speeds if given.

        With a link for each path between two of them, or for those of `pairs` alone; messages share
        all links and interfaces that they pass.
        """
        place = {node: at for at, node in enumerate(nodes)}
        chosen_pairs = permutations(nodes, 2) if pairs is None else pairs
        links = {pair: self.link(*pair) for pair in chosen_pairs}
        for pair, shared in self._shared(links).items():
            links[pair] = replace(links[pair], shared=links[pair].shared + tuple(shared))
        chosen = [self.nodes[node] for node in nodes]
        if speeds is not None:
            scaled = zip(chosen, speeds, strict=True)
            chosen = [replace(node, speed=speed) for node, speed in scaled]
        by_place = {(place[a], place[b]): link for (a, b), link in links.items()}
        return replace(self.cluster, nodes=tuple(chosen), links=by_place)

    def _shared(self, pairs: Iterable[Pair]) -> Mapping[Pair, Sequence[SharedCapacity]]:
        """What the messages of each pair share with others, but for interfaces at both ends."""
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
        """Links and interfaces on a path; a node with a single neighbour has its own alone."""
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
    """Paths of a question, found when they are asked for."""

    def __init__(self, question: Question) -> None:
        self._graph, self._from = question._graph, dict[int, dict[int, list[int]]]()

    def __missing__(self, pair: Pair) -> tuple[int, ...]:
        source, target = pair
        near = list(self._graph[source])
        if target in near and len(near) == 1:
            found: tuple[int, ...] = pair
        elif len(near) == 1:  # all paths lead that way
            found = source, *self[near[0], target]
        else:
            if source not in self._from:
                self._from[source] = nx.single_source_dijkstra_path(self._graph, source)
            found = tuple(self._from[source][target])
        self[pair] = found
        return found


@lru_cache(maxsize=1024)
def _analytic(profile: ModelProfile, flops_per_s: float, batch_size: int) -> LayerTimes:
    return LayerTimes.from_flops(profile, flops_per_s=flops_per_s, batch_size=batch_size)


def link_bps(link: Link) -> float:
    """Bandwidth of a link as it is at the beginning."""
    bandwidth = link.bandwidth
    if isinstance(bandwidth, Schedule):
        return at_beginning(bandwidth)
    return bandwidth


def at_beginning(schedule: Schedule) -> float:
    """Value of a schedule at the beginning; the first above 0, if it begins with an outage."""
    return next(value for value in schedule.values if value > 0)


def _interface(own: Schedule | None, links: Sequence[Link]) -> float | Schedule | None:
    """The capacity of an interface: its own limit, or its only link's."""
    if len(links) != 1:
        return own
    return _narrowest([links[0].bandwidth, *([] if own is None else [own])])


def _joined(hops: Sequence[Link], nodes: Sequence[Node]) -> Link:
    """A path's hops as a link, within the interfaces of the nodes that it leads over."""
    interfaces = [*(node.uplink for node in nodes[:-1]), *(node.downlink for node in nodes[1:])]
    limits = [limit for limit in interfaces if limit is not None]
    return Link(
        _narrowest([*(hop.bandwidth for hop in hops), *limits]),
        overhead_s=sum(hop.overhead_s for hop in hops),
        latency_s=sum(hop.latency_s for hop in hops),
        shared=tuple(shared for hop in hops for shared in hop.shared),
    )


def _narrowest(given: Sequence[float | Schedule]) -> float | Schedule:
    """The least of several bandwidths, at any time."""
    numbers = [one for one in given if not isinstance(one, Schedule)]
    schedules = [one for one in given if isinstance(one, Schedule)]
    if not schedules:
        return min(numbers)
    starts_s = sorted({start_s for one in schedules for start_s in one.starts_s})
    least = [min(*numbers, *(one.at(at_s) for one in schedules), math.inf) for at_s in starts_s]
    return least[0] if len(least) == 1 else Schedule(tuple(starts_s), tuple(least))

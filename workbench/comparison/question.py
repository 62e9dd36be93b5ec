"""What is asked: one model on one cluster, and how each node reaches the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import networkx as nx
import polars as pl

from workbench.clusters import Cluster, Link, Schedule
from workbench.clusters.node import Given
from workbench.profiles import LayerTimes, ModelProfile
from workbench.utils.checks import UserError, check_kind, check_name, check_whole

if TYPE_CHECKING:
    from workbench.clusters.cluster import Name

Pair = tuple[int, int]


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
        Bytes of a step by the samples in it (`memory_of`); None if they are not known.

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
    memory: Callable[[int], float] | None = None

    def __post_init__(self) -> None:
        check_kind("profile", self.profile, ModelProfile, "profile_model(name or module)")
        check_kind("cluster", self.cluster, Cluster, "a Cluster, such as load_cluster(path)")
        object.__setattr__(self, "batch_size", check_whole("batch_size", self.batch_size, 1))
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
        graph = nx.DiGraph(self.cluster.links.keys())
        graph.add_nodes_from(range(len(self.cluster)))
        for source, name in enumerate(self.cluster.names):
            reached = {source} | nx.descendants(graph, source)
            for target in range(len(self.cluster)):
                if target not in reached:
                    raise UserError(
                        f"no links lead from {name} to {self.cluster.names[target]}; every node "
                        "has to reach all others, if by way of others: add links"
                    )

    @property
    def model_bytes(self) -> int:
        """Bytes of all trained parameters, and of a gradient."""
        return int(self.profile.table["param_bytes"].sum())

    @cached_property
    def sample_bytes(self) -> float:
        """Bytes of a raw sample as the model takes it: four for each value."""
        shape = self.profile.input_shape
        shapes = shape if isinstance(shape[0], Sequence) else (shape,)
        values = 0
        for one in shapes:
            size = 1
            for length in one:
                size *= length
            values += size
        return 4.0 * values

    @cached_property
    def holders(self) -> tuple[int, ...]:
        """Nodes that hold samples; all nodes, if the cluster names no holder."""
        holding = tuple(at for at, node in enumerate(self.cluster.nodes) if node.samples)
        return holding or tuple(range(len(self.cluster)))

    def share(self, nodes: Collection[int]) -> float:
        """Share of all samples that these nodes hold."""
        counts = {node: self.cluster.nodes[node].samples or 1 for node in self.holders}
        held = sum(counts.get(node, 0) for node in nodes)
        return held / sum(counts.values())

    def assumes(self, learns_from: Collection[int]) -> tuple[str, ...]:
        """What is assumed of the samples by a way that learns from those of some nodes."""
        if not any(node.samples for node in self.cluster.nodes):
            return ("every node holds as many samples, since none says how many",)
        out = [self.cluster.names[node] for node in self.holders if node not in learns_from]
        return (f"not learnt from: the samples of {', '.join(out)}",) if out else ()

    def layer_times(self, node: int, batch_size: int | None = None) -> LayerTimes:
        """Seconds by layer of a node at speed 1, for a batch."""
        size = batch_size or self.batch_size
        known = self._layer_times.get((node, size))
        if known is None:
            known = self._layer_times[node, size] = self._timed(node, size)
        return known

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
        limits = [at_beginning(one) for one in (source.uplink, target.downlink) if one]
        return min([link_bps(self.cluster.links[hop]), *limits])

    def way_bps(self, source: int, target: int) -> float:
        """What the way from one node to another carries at the beginning, if nobody else sends."""
        return min(map(self.hop_bps, pairwise(self.paths[source, target])))

    @cached_property
    def paths(self) -> Mapping[Pair, tuple[int, ...]]:
        """(source, target) -> nodes on the path by which a model arrives first."""
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(self.cluster)))
        for (source, target), link in self.cluster.links.items():
            rate = self.hop_bps((source, target))
            seconds = link.overhead_s + link.latency_s + 8 * self.model_bytes / rate
            graph.add_edge(source, target, weight=seconds)
        return {
            (source, target): tuple(path)
            for source, targets in nx.all_pairs_dijkstra_path(graph)
            for target, path in targets.items()
            if source != target
        }

    @cached_property
    def routed(self) -> Cluster:
        """Every node linked with every other, through other nodes where there is no link.

        A message passes nodes on its way as packets do: the narrowest link decides, overheads and
        latencies add up. A node with a single link has that link's capacity as its interface, which
        all its messages share; a link inside, between nodes that have others, carries each as if
        alone (see `use.within_links`).
        """
        links = self.cluster.links
        nodes = []
        for index, node in enumerate(self.cluster.nodes):
            out = [link for (source, _), link in links.items() if source == index]
            into = [link for (_, target), link in links.items() if target == index]
            nodes.append(
                replace(
                    node,
                    uplink_bps=_interface(node.uplink_bps, out),
                    downlink_bps=_interface(node.downlink_bps, into),
                )
            )
        ways: dict[tuple[Name, Name], Link] = {}
        for pair, path in self.paths.items():
            hops = [links[hop] for hop in pairwise(path)]
            ways[pair] = hops[0] if len(hops) == 1 else _way(hops, self.way_bps(*pair))
        return Cluster(nodes, ways)

    def part(self, nodes: Sequence[int], speeds: Sequence[float] | None = None) -> Cluster:
        """The routed cluster of these nodes alone, in this order, with other speeds if given."""
        place = {node: at for at, node in enumerate(nodes)}
        links: dict[tuple[Name, Name], Link] = {
            (place[a], place[b]): link
            for (a, b), link in self.routed.links.items()
            if a in place and b in place
        }
        chosen = [self.routed.nodes[node] for node in nodes]
        if speeds is not None:
            pairs = zip(chosen, speeds, strict=True)
            chosen = [replace(node, speed=speed) for node, speed in pairs]
        return Cluster(chosen, links)


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


def _interface(own: Given | None, links: Sequence[Link]) -> Given | None:
    """The capacity of an interface: its own limit, or its only link's."""
    if len(links) != 1:
        return own
    only = links[0].bandwidth
    if own is None:
        return only
    return min(at_beginning(Schedule.of(own)), at_beginning(Schedule.of(only)))


def _way(hops: Sequence[Link], bandwidth_bps: float) -> Link:
    return Link(
        bandwidth_bps,
        overhead_s=sum(hop.overhead_s for hop in hops),
        latency_s=sum(hop.latency_s for hop in hops),
    )

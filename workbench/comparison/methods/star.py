"""A server and its workers, and the choice of the best node as server."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from workbench.clusters import Cluster, Link, Schedule
from workbench.comparison.methods.method import Candidate, Plan, fastest
from workbench.comparison.problem import Problem, UnusableError
from workbench.comparison.routes import Pair, at_beginning
from workbench.profiles import LayerTimes


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths between a server and its workers on other nodes, in one direction.

    Attributes
    ----------
    links
        Worker -> its path, with its share of the server's interface if all send at once.
    most_bps
        Worker -> bandwidth of its path if nobody else sends.
    interface_bps
        Bandwidth of the server's interface.
    """

    links: Mapping[int, Link]
    most_bps: Mapping[int, float]
    interface_bps: float

    def least_s(self, node: int, size_bytes: float) -> float:
        """Lower bound on the seconds until bytes to or from a worker have arrived."""
        link = self.links[node]
        return link.overhead_s + 8 * size_bytes / self.most_bps[node] + link.latency_s


@dataclass(frozen=True, eq=False)
class Star:
    """A server with all data owners as workers; the server is one of them if it holds samples.

    Messages between a worker and a server on the same node take no time.
    """

    problem: Problem
    node: int
    batches: Mapping[int, int]  # samples of each worker in an iteration

    def of(self, problem: Problem) -> Star:
        """The same server in another period of the training."""
        return replace(self, problem=problem)

    @property
    def workers(self) -> Sequence[int]:
        """All data owners."""
        return self.problem.owners

    @cached_property
    def remote(self) -> Sequence[int]:
        """Workers on other nodes."""
        return [node for node in self.workers if node != self.node]

    @cached_property
    def nodes(self) -> Sequence[int]:
        """Workers, then the server if it is not one of them."""
        return self.workers if self.node in self.workers else [*self.workers, self.node]

    @cached_property
    def kinds(self) -> Mapping[object, Sequence[int]]:
        """Workers grouped by kind: those of a group differ only in their names."""
        groups = defaultdict[object, list[int]](list)
        for node in self.workers:
            kind = self.problem.kind(node), self.batches[node]
            paths = (node,) if node == self.node else (self.down.links[node], self.up.links[node])
            groups[kind, paths].append(node)
        return groups

    @property
    def place(self) -> int:
        """The server's place among the nodes."""
        return self.nodes.index(self.node)

    @property
    def all_batches(self) -> Mapping[int, int]:
        """Batches as in a `Plan`: with 0 for a server that is not a worker."""
        return {self.node: 0, **self.batches}

    def layer_times(self, node: int) -> LayerTimes:
        """Layer times of a worker's batch."""
        return self.problem.layer_times(node, self.batches[node])

    @property
    def where(self) -> str:
        """Where the server runs, for a table."""
        also = ", a worker as well" if self.node in self.workers else ""
        return f"server on {self.problem.cluster.names[self.node]}{also}"

    @cached_property
    def down(self) -> Paths:
        """Paths from the server to its workers."""
        limit = self.problem.routes.nodes[self.node].uplink
        return self._direction({node: (self.node, node) for node in self.remote}, limit)

    @cached_property
    def up(self) -> Paths:
        """Paths from the workers to the server."""
        limit = self.problem.routes.nodes[self.node].downlink
        return self._direction({node: (node, self.node) for node in self.remote}, limit)

    def _direction(self, pairs: Mapping[int, Pair], limit: Schedule | None) -> Paths:
        interface_bps = at_beginning(limit) if limit else math.inf
        most_bps = {node: self.problem.routes.path_bps(*pair) for node, pair in pairs.items()}
        shares = fair_bps(list(most_bps.values()), interface_bps)
        links = {
            node: replace(self.problem.routes.link(*pairs[node]), bandwidth_bps=bps)
            for node, bps in zip(pairs, shares, strict=True)
        }
        return Paths(links, most_bps, interface_bps)

    @property
    def cluster(self) -> Cluster:
        """The nodes, linked with the server."""
        pairs = [pair for node in self.remote for pair in ((self.node, node), (node, self.node))]
        return self.problem.routes.part(self.nodes, pairs=pairs)

    @property
    def interface_s(self) -> float:
        """Lower bound on the seconds until all workers have received a model, or sent one."""
        bits = 8.0 * self.problem.model_bytes * len(self.remote)
        return max(bits / paths.interface_bps for paths in (self.down, self.up))


def with_best_server(
    problem: Problem,
    batches: Mapping[int, int],
    samples: float,
    plan: Callable[[Star], Plan],
    least_s: Callable[[Star], float],
) -> Plan:
    """The fastest plan over all nodes as servers.

    `samples` are those of an iteration; `least_s` is a lower bound on its seconds.
    """
    stars = [Star(problem, node, batches) for node in problem.unlike]
    candidates = [
        Candidate(_lacking_memory(star), least_s(star) / samples, partial(plan, star))
        for star in stars
        if star.remote
    ]
    if not candidates:
        raise UnusableError("a server needs a second node")
    return fastest(problem, candidates)


def _lacking_memory(star: Star) -> int:
    return sum(
        not star.problem.fits(node, count, serves=node == star.node)
        for node, count in star.all_batches.items()
    )


def fair_bps(most_bps: Sequence[float], shared_bps: float) -> list[float]:
    """Max-min fair shares: whoever needs less than an equal part leaves the rest to the others."""
    shares, rest_bps, count = [0.0] * len(most_bps), shared_bps, len(most_bps)
    for at in sorted(range(count), key=most_bps.__getitem__):
        shares[at] = min(most_bps[at], rest_bps / count)
        rest_bps -= shares[at] if shares[at] < math.inf else 0.0
        count -= 1
    return shares

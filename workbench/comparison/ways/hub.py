"""A node that all holders of samples exchange with, chosen among all that differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from workbench.clusters import Link, Schedule
from workbench.comparison.question import Pair, Question, UnusableError, at_beginning
from workbench.comparison.sharing import Transfer, ends_s, fair_bps
from workbench.comparison.use import within_links
from workbench.comparison.ways.way import Option
from workbench.profiles import LayerTimes

ROUNDING = 1e-9
"""Hubs that are faster by less are alike."""


@dataclass(frozen=True, eq=False)
class Direction:
    """Paths between a hub and its workers on other nodes, in one direction.

    Attributes
    ----------
    links
        Worker -> its path, with its share of the hub's interface if all send at a time.
    most_bps
        Worker -> what its path carries if it alone sends.
    interface_bps
        What the hub's interface carries.
    """

    links: Mapping[int, Link]
    most_bps: Mapping[int, float]
    interface_bps: float

    def arrive_s(self, transfers: Mapping[int, Sequence[Transfer]]) -> dict[int, list[float]]:
        """Worker -> when each of its transfers arrives."""
        most_bps = [self.most_bps[node] for node in transfers]
        ends = ends_s(list(transfers.values()), most_bps, self.interface_bps)
        return {
            node: [end_s + self.links[node].latency_s for end_s in own]
            for node, own in zip(transfers, ends, strict=True)
        }

    def least_s(self, node: int, size_bytes: float) -> float:
        """Seconds at least until bytes to or from a worker have arrived."""
        link = self.links[node]
        return link.overhead_s + 8 * size_bytes / self.most_bps[node] + link.latency_s


@dataclass(frozen=True, eq=False)
class Hub:
    """A server, and at the same time a worker if it holds samples.

    What a node's worker and server tell each other takes no time.
    """

    question: Question
    node: int
    batches: Mapping[int, int]  # samples of each worker in an iteration

    @property
    def workers(self) -> Sequence[int]:
        """All holders of samples."""
        return self.question.holders

    @cached_property
    def remote(self) -> Sequence[int]:
        """Workers on other nodes."""
        return [node for node in self.workers if node != self.node]

    @cached_property
    def nodes(self) -> Sequence[int]:
        """Workers, then the hub if it is none."""
        return self.workers if self.node in self.workers else [*self.workers, self.node]

    @property
    def place(self) -> int:
        """The hub's place among the nodes."""
        return self.nodes.index(self.node)

    @property
    def all_batches(self) -> Mapping[int, int]:
        """As an `Option` has them: with 0 of a server that is no worker."""
        return {self.node: 0, **self.batches}

    def layer_times(self, node: int) -> LayerTimes:
        """Of a worker's batch; the hub has less memory for it than as a worker alone."""
        return self.question.layer_times(node, self.batches[node], serves=node == self.node)

    @property
    def where(self) -> str:
        """What a table says of it."""
        also = ", a worker as well" if self.node in self.workers else ""
        return f"server on {self.question.cluster.names[self.node]}{also}"

    @cached_property
    def down(self) -> Direction:
        """From the hub to its workers."""
        limit = self.question.routed.nodes[self.node].uplink
        return self._direction({node: (self.node, node) for node in self.remote}, limit)

    @cached_property
    def up(self) -> Direction:
        """From its workers to the hub."""
        limit = self.question.routed.nodes[self.node].downlink
        return self._direction({node: (node, self.node) for node in self.remote}, limit)

    def _direction(self, pairs: Mapping[int, Pair], limit: Schedule | None) -> Direction:
        interface_bps = at_beginning(limit) if limit else math.inf
        most_bps = {node: self.question.path_bps(*pair) for node, pair in pairs.items()}
        shares = fair_bps(list(most_bps.values()), interface_bps)
        links = {
            node: replace(self.question.routed.link(*pairs[node]), bandwidth_bps=bps)
            for node, bps in zip(pairs, shares, strict=True)
        }
        return Direction(links, most_bps, interface_bps)

    @property
    def interface_s(self) -> float:
        """Seconds at least until all have been sent the model, or have sent it."""
        bits = 8.0 * self.question.model_bytes * len(self.remote)
        return max(bits / one.interface_bps for one in (self.down, self.up))


def with_best_hub(
    question: Question,
    batches: Mapping[int, int],
    option: Callable[[Hub], Option],
    least_s: Callable[[Hub], float],
) -> Option:
    """The fastest option of those under which most nodes have the memory.

    `least_s` bounds an option's seconds an iteration: who cannot be the fastest is not tried.
    """
    hubs = [Hub(question, node, batches) for node in question.unlike]
    bounds = [(_lacking_memory(hub), least_s(hub), hub) for hub in hubs if hub.remote]
    if not bounds:
        raise UnusableError("a server needs a second node")
    best: Option | None = None
    fewest, best_s = 0, math.inf
    for lacking, bound_s, hub in sorted(bounds, key=lambda one: one[:2]):
        if best is not None and (lacking > fewest or bound_s >= best_s * (1 - ROUNDING)):
            break
        tried = option(hub)
        seconds = within_links(question, tried.use).iteration_s
        if seconds < best_s:
            best, fewest, best_s = tried, lacking, seconds
    assert best is not None
    return best


def _lacking_memory(hub: Hub) -> int:
    return sum(
        not hub.question.fits(node, count, serves=node == hub.node)
        for node, count in hub.all_batches.items()
    )

"""A node that all holders of samples exchange with, and the choice of it: each node is tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from workbench.clusters import Link
from workbench.comparison.question import Question, UnusableError, at_beginning
from workbench.comparison.sharing import Transfer, ends_s, fair_bps
from workbench.comparison.use import within_links
from workbench.comparison.ways.way import Option
from workbench.profiles import LayerTimes

ROUNDING = 1e-9
"""Hubs that are faster by less are alike."""


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
    def down(self) -> Mapping[int, Link]:
        """Worker -> the path to it, with its share of the hub's interface if all are sent to."""
        return self._links([(self.node, node) for node in self.remote], self._down_bps)

    @cached_property
    def up(self) -> Mapping[int, Link]:
        """Worker -> the path from it, with its share of the hub's interface if all send."""
        return self._links([(node, self.node) for node in self.remote], self._up_bps)

    def _links(self, pairs: Iterable[tuple[int, int]], interface_bps: float) -> dict[int, Link]:
        ends = list(pairs)
        shares = fair_bps([self.question.path_bps(*pair) for pair in ends], interface_bps)
        return {
            node: replace(self.question.routed.link(*pair), bandwidth_bps=bps)
            for node, pair, bps in zip(self.remote, ends, shares, strict=True)
        }

    @cached_property
    def _down_bps(self) -> float:
        limit = self.question.routed.nodes[self.node].uplink
        return at_beginning(limit) if limit else math.inf

    @cached_property
    def _up_bps(self) -> float:
        limit = self.question.routed.nodes[self.node].downlink
        return at_beginning(limit) if limit else math.inf

    def sent_s(self, transfers: Mapping[int, Sequence[Transfer]]) -> dict[int, list[float]]:
        """When what the hub sends to each worker arrives."""
        most = [self.question.path_bps(self.node, node) for node in transfers]
        return _arrive_s(transfers, most, self._down_bps, self.down)

    def received_s(self, transfers: Mapping[int, Sequence[Transfer]]) -> dict[int, list[float]]:
        """When what each worker sends arrives at the hub."""
        most = [self.question.path_bps(node, self.node) for node in transfers]
        return _arrive_s(transfers, most, self._up_bps, self.up)

    def down_s(self, node: int, size_bytes: float) -> float:
        """Seconds at least until what is sent to a worker arrives."""
        link = self.down[node]
        flowing_s = 8 * size_bytes / self.question.path_bps(self.node, node)
        return link.overhead_s + flowing_s + link.latency_s

    def up_s(self, node: int, size_bytes: float) -> float:
        """Seconds at least until what a worker sends arrives."""
        link = self.up[node]
        flowing_s = 8 * size_bytes / self.question.path_bps(node, self.node)
        return link.overhead_s + flowing_s + link.latency_s

    @property
    def interface_s(self) -> float:
        """Seconds at least until all have been sent the model, or have sent it."""
        bits = 8.0 * self.question.model_bytes * len(self.remote)
        return max(bits / self._down_bps, bits / self._up_bps)


def _arrive_s(
    transfers: Mapping[int, Sequence[Transfer]],
    most_bps: Sequence[float],
    interface_bps: float,
    links: Mapping[int, Link],
) -> dict[int, list[float]]:
    ends = ends_s(list(transfers.values()), most_bps, interface_bps)
    return {
        node: [end_s + links[node].latency_s for end_s in own]
        for node, own in zip(transfers, ends, strict=True)
    }


def with_best_hub(
    question: Question,
    batches: Mapping[int, int],
    option: Callable[[Hub], Option],
    least_s: Callable[[Hub], float],
) -> Option:
    """The fastest option of those under which most nodes have the memory.

    `least_s` bounds an option's seconds an iteration: who cannot be the fastest is not tried.
    """
    hubs = [Hub(question, node, batches) for node in question.by_name]
    bounds = [(_lacking_memory(hub), least_s(hub), hub) for hub in hubs if hub.remote]
    if not bounds:
        raise UnusableError("a server takes a second node")
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

"""What workers and parameter servers do together, and what each segment of it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.dynacomm.costs import FloatArray
from workbench.dynacomm.shards import Shards


class Part(NamedTuple):
    """What one server has to do with a segment.

    Attributes
    ----------
    node
        The server.
    pull_bytes, push_bytes
        What its part weighs on the links.
    where
        Its parts of the model's flat vector; none where nothing is learnt.
    layers
        Of how many layers it holds something.
    """

    node: int
    pull_bytes: float
    push_bytes: float
    where: list[slice]
    layers: int


class Segment(NamedTuple):
    """Layers `first` to `last`: seconds of computation, and the servers' parts by position."""

    first: int
    last: int
    forward_s: float
    backward_s: float
    parts: Mapping[int, Part]


@dataclass(frozen=True, eq=False)
class Job:
    """What workers and servers do together, but for the learning.

    Attributes
    ----------
    forward_s, backward_s
        Seconds of each layer at speed 1, shape (L,).
    pull_bytes, push_bytes
        What each layer's parameters and gradients weigh on the links, shape (L,); see
        `Link.weighted_bytes`.
    shards
        Which server holds how much of which layer.
    iterations
        How many.
    workers, servers
        Their indices in the cluster.
    aggregation_s
        Seconds a server takes to average and step.
    """

    forward_s: FloatArray
    backward_s: FloatArray
    pull_bytes: FloatArray
    push_bytes: FloatArray
    shards: Shards
    iterations: int
    workers: tuple[int, ...]
    servers: tuple[int, ...]
    aggregation_s: float = 0.0
    _segments: dict[tuple[int, int], Segment] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        vectors = (self.forward_s, self.backward_s, self.pull_bytes, self.push_bytes)
        lengths = [len(vector) for vector in vectors]
        if set(lengths) != {self.shards.layers}:
            raise ValueError(
                "forward_s, backward_s, pull_bytes and push_bytes have the lengths "
                f"{lengths}, but the shards are of {self.shards.layers} layers"
            )
        if len(self.servers) != self.shards.servers:
            raise ValueError(
                f"{self.shards.servers} shards for {len(self.servers)} servers; one each is needed"
            )
        if self.iterations < 1 or not self.workers:
            raise ValueError("a job has at least one iteration and one worker")

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.forward_s)

    def segment(self, first: int, last: int) -> Segment:
        """What is transmitted and computed together, worked out once."""
        found = self._segments.get((first, last))
        if found is None:
            found = self._segments[first, last] = self._segment(slice(first - 1, last))
        return found

    def _segment(self, layers: slice) -> Segment:
        first, last = layers.start + 1, layers.stop
        parts = {
            position: Part(
                self.servers[position],
                float(self.pull_bytes[layers] @ self.shards.share[position, layers]),
                float(self.push_bytes[layers] @ self.shards.share[position, layers]),
                self.shards.slices(position, first, last) if self.shards.starts else [],
                self.shards.held(position, first, last),
            )
            for position in range(self.shards.servers)
            if self.shards.held(position, first, last)
        }
        forward_s, backward_s = self.forward_s[layers].sum(), self.backward_s[layers].sum()
        return Segment(first, last, float(forward_s), float(backward_s), parts)

"""A training job of workers and parameter servers, and what each segment of it takes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from workbench.checks import check_kind, check_layers, check_number, check_whole, listed, whole
from workbench.dynacomm.costs.iteration import FloatArray, check_profiled
from workbench.dynacomm.programs.shards import Shards
from workbench.errors import UserError

if TYPE_CHECKING:
    from workbench.clusters import Link
    from workbench.profiles import LayerTimes, ModelProfile

VECTORS = ("forward_s", "backward_s", "pull_bytes", "push_bytes")


class Part(NamedTuple):
    """Part of a segment that one server holds."""

    node: int  # the server
    pull_bytes: float  # on the links
    push_bytes: float  # on the links
    where: list[slice]  # in the model's flat vector; none where nothing is learnt
    layers: int  # of how many it holds something
    tensors: int = 0  # that count, if tensors do

    def tensor_bytes(self, size_bytes: float) -> tuple[float, ...]:
        """A message's bytes by tensor; only the number of tensors matters."""
        return (size_bytes / self.tensors,) * self.tensors if self.tensors else ()


class Segment(NamedTuple):
    """Layers `first` to `last`: seconds of computation, and the servers' parts by position."""

    first: int
    last: int
    forward_s: float
    backward_s: float
    parts: Mapping[int, Part]


@dataclass(frozen=True, eq=False)
class Job:
    """A training job: what all programs of a run know, but for the learning.

    Axes: L = layer. Nodes are named by their index in the cluster; none is both worker and server.
    """

    forward_s: FloatArray  # of each layer at speed 1, (L,)
    backward_s: FloatArray  # (L,)
    pull_bytes: FloatArray  # each layer's parameters on the links, (L,), as `Link.weighted_bytes`
    push_bytes: FloatArray  # each layer's gradients, (L,)
    shards: Shards
    iterations: int
    workers: tuple[int, ...]
    servers: tuple[int, ...]
    aggregation_s: float = 0.0  # of a server, to average and step
    # parameter tensors of each layer, if each costs (`Link.tensor_s`), else ()
    tensors: tuple[int, ...] = ()
    _segments: dict[tuple[int, int], Segment] = field(default_factory=dict, repr=False, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.shards, Shards):
            raise UserError(
                f"shards is {self.shards!r}; give Shards, such as split_evenly(layers, servers)"
            )
        for name in VECTORS:
            object.__setattr__(self, name, check_layers(name, getattr(self, name)))
        for name in ("workers", "servers"):
            nodes = listed(name, getattr(self, name), "give indices of nodes, such as (0, 1)")
            what = f"an index among the {name}"
            object.__setattr__(self, name, tuple(check_whole(what, node, 0) for node in nodes))
        tensors = listed("tensors", self.tensors, "give the number of each layer, or none: ()")
        counts = tuple(check_whole("the number of a layer's tensors", one, 0) for one in tensors)
        object.__setattr__(self, "tensors", counts)
        lengths = [len(getattr(self, name)) for name in VECTORS]
        if set(lengths) != {self.shards.layers}:
            raise UserError(
                "forward_s, backward_s, pull_bytes and push_bytes have the lengths "
                f"{lengths}, but the shards are of {self.shards.layers} layers"
            )
        if not 0 <= check_number("aggregation_s", self.aggregation_s) < math.inf:
            raise UserError(
                f"aggregation_s is {self.aggregation_s}; seconds are finite and not negative"
            )
        if self.tensors and len(self.tensors) != self.layers:
            raise UserError(f"tensors counts {len(self.tensors)} layers of {self.layers}")
        self._check_nodes()
        iterations = whole(self.iterations)
        if iterations is None or iterations < 1 or not self.workers:
            raise UserError(
                f"{self.iterations!r} iterations of {len(self.workers)} workers: a job has at "
                "least one iteration and one worker"
            )
        object.__setattr__(self, "iterations", iterations)

    def _check_nodes(self) -> None:
        if len(self.servers) != self.shards.servers:
            raise UserError(
                f"{self.shards.servers} shards for {len(self.servers)} servers; one each is needed"
            )
        nodes = (*self.workers, *self.servers)
        twice = [node for node, count in Counter(nodes).items() if count > 1]
        if twice:
            raise UserError(
                f"node {twice[0]} is named twice among the workers {self.workers} and the servers "
                f"{self.servers}; every node is one worker or one server"
            )

    @classmethod
    def of(
        cls,
        profile: ModelProfile,
        times: LayerTimes,
        link: Link,
        *,
        shards: Shards,
        iterations: int,
        workers: int = 1,
        aggregation_s: float = 0.0,
    ) -> Job:
        """Job of a model whose workers are the first nodes, its servers the next.

        Bytes are weighed as `link` weighs them, so simulate on links made `plain`.
        """
        check_profiled(profile, times, link)
        check_kind("shards", shards, Shards, "Shards, such as split_evenly(layers, servers)")
        workers = check_whole("workers", workers, 1)
        weighed = np.array([link.weighted_bytes(sizes) for sizes in profile.tensor_bytes])
        return cls(
            forward_s=times.table["forward_s"].to_numpy(),
            backward_s=times.table["backward_s"].to_numpy(),
            pull_bytes=weighed,
            push_bytes=weighed,
            shards=shards,
            iterations=iterations,
            workers=tuple(range(workers)),
            servers=tuple(range(workers, workers + shards.servers)),
            aggregation_s=aggregation_s,
            tensors=tuple(map(len, profile.tensor_bytes)) if link.tensor_s else (),
        )

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.forward_s)

    def segment(self, first: int, last: int) -> Segment:
        """What is transmitted and computed together; cached."""
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
                self._tensors(position, layers),
            )
            for position in range(self.shards.servers)
            if self.shards.held(position, first, last)
        }
        forward_s, backward_s = self.forward_s[layers].sum(), self.backward_s[layers].sum()
        return Segment(first, last, float(forward_s), float(backward_s), parts)

    def _tensors(self, position: int, layers: slice) -> int:
        held = self.shards.share[position, layers] > 0
        counts = zip(self.tensors[layers], held, strict=False)
        return sum(count for count, here in counts if here)


def plain(link: Link) -> Link:
    """Return the link for bytes that have been weighed: there every byte weighs the same."""
    return replace(link, split_bytes=0, whole_share=1.0)

"""A training job of workers and parameter servers: who holds what, and what each segment takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from workbench.clusters import Link
from workbench.dynacomm.costs.iteration import FloatArray, check_profiled
from workbench.errors import UserError
from workbench.profiles import LayerTimes, ModelProfile


@dataclass(frozen=True, eq=False)
class Shards:
    """A model's layers shared out over servers."""

    share: FloatArray  # of each layer by server, (S, L); every column sums to 1
    # first element of each layer in the flat vector, and the end; () without learning
    starts: Sequence[int] = ()

    def __post_init__(self) -> None:
        empty = np.flatnonzero(~self.share.any(axis=1))
        if empty.size:
            raise UserError(
                f"server {empty[0]} of {self.servers} would hold no layer of {self.layers}; "
                "use fewer servers"
            )
        if not np.allclose(self.share.sum(axis=0), 1) or (self.share < 0).any():
            raise UserError("every layer must be shared out whole, in shares from 0 to 1")

    @property
    def servers(self) -> int:
        """Number of servers, S."""
        return len(self.share)

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return int(self.share.shape[1])

    def held(self, server: int, first: int, last: int) -> int:
        """Of how many of the layers `first` to `last` a server holds something."""
        return int(np.count_nonzero(self.share[server, first - 1 : last]))

    @cached_property
    def _parts(self) -> list[list[slice]]:
        """Part of the flat vector that a server holds of a layer: [server][layer - 1]."""
        sizes = np.diff(self.starts)
        shared = np.vstack([np.zeros(self.layers), self.share.cumsum(axis=0)])
        bounds = np.rint(shared * sizes).astype(int) + np.array(self.starts[:-1])
        return [
            [slice(low, high) for low, high in zip(*pair, strict=True)]
            for pair in pairwise(bounds.tolist())
        ]

    def slices(self, server: int, first: int, last: int) -> list[slice]:
        """Parts of the flat vector that a server holds of some layers; adjacent ones are merged."""
        merged: list[slice] = []
        for part in self._parts[server][first - 1 : last] if self.starts else ():
            if merged and merged[-1].stop == part.start:
                merged[-1] = slice(merged[-1].start, part.stop)
            elif part.stop > part.start:
                merged.append(part)
        return merged


def split_evenly(layers: int, servers: int, starts: Sequence[int] = ()) -> Shards:
    """Every server holds an equal part of every layer, as large tensors are in MXNet."""
    return Shards(np.full((servers, layers), 1 / servers), starts)


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

    Axes: L = layer. The first nodes of the cluster are the workers, the next the servers.
    """

    forward_s: FloatArray  # of each layer at speed 1, (L,)
    backward_s: FloatArray  # (L,)
    pull_bytes: FloatArray  # each layer's parameters on the links, (L,), as `Link.weighted_bytes`
    push_bytes: FloatArray  # each layer's gradients, (L,)
    shards: Shards
    iterations: int
    workers: int = 1
    aggregation_s: float = 0.0  # of a server, to average and step
    # parameter tensors of each layer, if each costs (`Link.tensor_s`), else ()
    tensors: tuple[int, ...] = ()

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
        """Job of a model; its bytes are weighed as `link` weighs them, so links are made `plain`.

        Profile and times of different models are a ValueError.
        """
        check_profiled(profile, times, link)
        weighed = np.array([link.weighted_bytes(sizes) for sizes in profile.tensor_bytes])
        return cls(
            forward_s=times.table["forward_s"].to_numpy(),
            backward_s=times.table["backward_s"].to_numpy(),
            pull_bytes=weighed,
            push_bytes=weighed,
            shards=shards,
            iterations=iterations,
            workers=workers,
            aggregation_s=aggregation_s,
            tensors=tuple(map(len, profile.tensor_bytes)) if link.tensor_s else (),
        )

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.forward_s)

    @cached_property
    def segment(self) -> Callable[[int, int], Segment]:
        """What is transmitted and computed together, by the first and the last layer; cached."""
        return cache(self._segment)

    def _segment(self, first: int, last: int) -> Segment:
        layers, shards = slice(first - 1, last), self.shards
        parts = {
            position: Part(
                self.workers + position,
                float(self.pull_bytes[layers] @ shards.share[position, layers]),
                float(self.push_bytes[layers] @ shards.share[position, layers]),
                shards.slices(position, first, last),
                shards.held(position, first, last),
                self._tensors(position, layers),
            )
            for position in range(shards.servers)
            if shards.held(position, first, last)
        }
        forward_s, backward_s = self.forward_s[layers].sum(), self.backward_s[layers].sum()
        return Segment(first, last, float(forward_s), float(backward_s), parts)

    def _tensors(self, position: int, layers: slice) -> int:
        held = self.shards.share[position, layers] > 0
        return sum(count for count, here in zip(self.tensors[layers], held, strict=False) if here)


def plain(link: Link) -> Link:
    """Return the link for bytes that have been weighed: there every byte weighs the same."""
    return replace(link, split_bytes=0, whole_share=1.0)

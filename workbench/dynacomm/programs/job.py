"""A training job of workers and parameter servers, and what each segment of it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from workbench.clusters import Link
from workbench.dynacomm.costs.iteration import FloatArray, check_profiled
from workbench.profiles import LayerTimes, ModelProfile


class Segment(NamedTuple):
    """Layers `first` to `last`, of which every server holds an equal part."""

    first: int
    last: int
    forward_s: float  # of the worker's computation
    backward_s: float
    pull_bytes: float  # of each part, on the links
    push_bytes: float
    tensors: int  # that count on the links, if tensors do
    where: list[list[slice]]  # in the model's flat vector, by server; empty if nothing is learnt

    @property
    def label(self) -> str:
        """Its layers, as a trace shows them."""
        return f"{self.first}-{self.last}"

    def tensor_bytes(self, size_bytes: float) -> tuple[float, ...]:
        """A message's bytes by tensor; only the number of tensors matters."""
        return (size_bytes / self.tensors,) * self.tensors if self.tensors else ()


@dataclass(frozen=True, eq=False)
class Job:
    """A training job: what all programs of a run know, but for the learning.

    The first nodes of the cluster are the workers, the next the servers; or `hub`, one of the
    workers, is the only server, too. Every server holds an equal part of every layer, as MXNet's
    servers do of large tensors.
    """

    forward_s: FloatArray  # of each layer at speed 1, (L,)
    backward_s: FloatArray  # (L,)
    pull_bytes: FloatArray  # each layer's parameters on the links, (L,), as `Link.weighted_bytes`
    push_bytes: FloatArray  # each layer's gradients, (L,)
    iterations: int
    workers: int = 1
    servers: int = 1
    aggregation_s: float = 0.0  # of a server, to average and step
    # parameter tensors of each layer, if each costs (`Link.tensor_s`), else ()
    tensors: tuple[int, ...] = ()
    # first element of each layer in the flat vector, and the end; () without learning
    starts: Sequence[int] = ()
    hub: int | None = None

    @property
    def server_nodes(self) -> Sequence[int]:
        """Nodes of the servers."""
        if self.hub is None:
            return range(self.workers, self.workers + self.servers)
        return (self.hub,)

    @classmethod
    def of(
        cls,
        profile: ModelProfile,
        times: LayerTimes,
        link: Link,
        *,
        iterations: int,
        workers: int = 1,
        servers: int = 1,
        aggregation_s: float = 0.0,
        starts: Sequence[int] = (),
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
            iterations=iterations,
            workers=workers,
            servers=servers,
            aggregation_s=aggregation_s,
            tensors=tuple(map(len, profile.tensor_bytes)) if link.tensor_s else (),
            starts=starts,
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
        layers = slice(first - 1, last)
        share = np.full(last - first + 1, 1 / self.servers)
        return Segment(
            first,
            last,
            float(self.forward_s[layers].sum()),
            float(self.backward_s[layers].sum()),
            float(self.pull_bytes[layers] @ share),
            float(self.push_bytes[layers] @ share),
            sum(self.tensors[layers]),
            [self.held(server, first, last) for server in range(self.servers)],
        )

    @cached_property
    def _bounds(self) -> list[list[int]]:
        """Where each server's part of each layer begins, and where the last one's ends."""
        shared = [0.0, *np.full(self.servers, 1 / self.servers).cumsum()]
        parts = np.rint(np.outer(shared, np.diff(self.starts))).astype(int)
        return (parts + np.array(self.starts[:-1])).tolist()  # type: ignore[no-any-return]

    def held(self, server: int, first: int, last: int) -> list[slice]:
        """Parts of the flat vector that a server holds of some layers; adjacent ones are merged."""
        merged: list[slice] = []
        if not self.starts:
            return merged
        lows, highs = (bounds[first - 1 : last] for bounds in self._bounds[server : server + 2])
        for low, high in zip(lows, highs, strict=True):
            if merged and merged[-1].stop == low:
                merged[-1] = slice(merged[-1].start, high)
            elif high > low:
                merged.append(slice(low, high))
        return merged


def plain(link: Link) -> Link:
    """Return the link for bytes that have been weighed: there every byte weighs the same."""
    return replace(link, split_bytes=0, whole_share=1.0)

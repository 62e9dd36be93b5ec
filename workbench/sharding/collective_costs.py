"""Cost of collectives: messages of a butterfly, and closed forms of a ring in buckets.

Both take the least bytes of any all-reduce, 2 (n - 1) / n of the vector from each of n workers
(Patarasu and Yuan 2009). In butterfly form, as `collectives` carries it out, every node sends each
other one its share, adds up its own, and sends the sum to all. In a ring every worker sends a share
to the next in each of 2 (n - 1) turns. Where several workers of a ring stand in one server, a share
enters and leaves the server once a turn, so that the ring is as fast as its slowest link, however
many workers share the interface.

Values of the closed forms may be arrays: one element a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.utils.checks import UserError

Values = NDArray[np.float64]

ROUNDS = ("part", "sum")
"""Rounds of an all-reduce in butterfly form: shares to their owners, sums to all."""

BUCKET_BYTES, FIRST_BUCKET_BYTES = 25e6, 1e6
"""Gradients that PyTorch's DistributedDataParallel averages together, and in the first bucket."""


class AllReduce(NamedTuple):
    """Gradients that several nodes sum, in butterfly form."""

    nodes: tuple[int, ...]
    size_bytes: float

    @property
    def share_bytes(self) -> float:
        """Bytes of a message: a node sends one to each other node in each of the `ROUNDS`."""
        return self.size_bytes / len(self.nodes)

    def others(self, node: int) -> list[int]:
        """Nodes with which a node exchanges messages."""
        return [other for other in self.nodes if other != node]


def exchange_end_s(
    share_bytes: float, start_s: Values, free_s: Values, between_nodes: Values
) -> Values:
    """Seconds at which each of N nodes has the shares of all others; a round of a butterfly.

    Parameters
    ----------
    start_s
        When each node sends its shares, shape (N,).
    free_s
        When each link is free, shape (N, N); it is changed.
    between_nodes
        Overhead, seconds a byte and latency from each node to each other, shape (3, N, N).
    """
    overhead_s, byte_s, latency_s = between_nodes
    np.maximum(free_s, start_s[:, None], out=free_s)
    free_s += overhead_s + share_bytes * byte_s
    arrived_s = free_s + latency_s
    np.fill_diagonal(arrived_s, start_s)
    end_s: Values = arrived_s.max(axis=0)
    return end_s


def ring_s(
    size_bytes: float,
    workers: ArrayLike,
    bytes_per_s: ArrayLike,
    overhead_s: ArrayLike = 0.0,
) -> Values:
    """Seconds of an all-reduce in a ring; `overhead_s` is what each turn costs beside its bytes.

    Raises UserError: fewer than one worker, a rate that is not above 0, negative bytes or seconds.
    """
    count = _numbers("workers", workers, lambda count: count >= 1, "at least 1")
    rate = _numbers("bytes_per_s", bytes_per_s, lambda rate: rate > 0, "above 0")
    size = _numbers("size_bytes", size_bytes, lambda size: size >= 0, "at least 0")
    turn_s = _numbers("overhead_s", overhead_s, lambda seconds: seconds >= 0, "at least 0")
    seconds: Values = 2 * (count - 1) * (size / count / rate + turn_s)
    return seconds


def _numbers(
    name: str, values: ArrayLike, fits: Callable[[Values], NDArray[np.bool_]], must: str
) -> Values:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} is {values!r}; give a number, or an array of numbers") from None
    if not fits(array).all():
        raise UserError(f"{name} is {array.tolist()}; it must be {must}")
    return array


class Bucket(NamedTuple):
    """Gradients that are averaged together.

    Attributes
    ----------
    ready
        Share of the backward pass after which they are all known.
    """

    size_bytes: float
    ready: float


def buckets(
    sizes_bytes: Sequence[float],
    work: Sequence[float],
    bucket_bytes: float = BUCKET_BYTES,
    first_bytes: float = FIRST_BUCKET_BYTES,
) -> list[Bucket]:
    """Fill buckets with whole layers, the last layer first; layers are given first layer first.

    `work` is what the backward pass of each layer costs, in any unit. A bucket is closed by the
    layer with which it reaches its size.
    """
    filled: list[Bucket] = []
    held, done, limit = 0.0, 0.0, first_bytes
    for size, cost in zip(reversed(sizes_bytes), reversed(work), strict=True):
        held, done = held + size, done + cost
        if held >= limit:
            filled.append(Bucket(held, done / sum(work)))
            held, limit = 0.0, bucket_bytes
    return [*filled, Bucket(held, 1.0)] if held else filled


def overlapped_s(
    compute_s: ArrayLike,
    first_s: ArrayLike,
    parts: Iterable[Bucket],
    reduce_s: Callable[[float], Values],
) -> Values:
    """Seconds of a training step whose buckets are averaged in turn, each as soon as it is known.

    Parameters
    ----------
    compute_s
        Seconds of a step without averaging.
    first_s
        Seconds of these that pass before the backward pass gives the first gradient.
    reduce_s
        Seconds of averaging this number of bytes.
    """
    whole, first = np.asarray(compute_s, dtype=np.float64), np.asarray(first_s)
    end_s: Values = np.zeros_like(whole)
    for size, ready in parts:
        end_s = np.maximum(end_s, first + ready * (whole - first)) + reduce_s(size)
    longest: Values = np.maximum(end_s, whole)
    return longest

"""Closed forms of an all-reduce in a ring, in buckets that overlap the backward pass.

A ring of n workers takes 2 (n - 1) steps, in each of which every worker sends a share of 1/n to the
next (Patarasu and Yuan 2009). Where several workers of a ring stand in one server, a share enters
and leaves the server once a step, so that the ring is as fast as its slowest link, however many
workers share the interface.

Values may be arrays: one element a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]

BUCKET_BYTES, FIRST_BUCKET_BYTES = 25e6, 1e6
"""Gradients that PyTorch's DistributedDataParallel averages together, and in the first bucket."""


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


def ring_s(
    size_bytes: float, workers: ArrayLike, bytes_per_s: ArrayLike, step_s: ArrayLike = 0.0
) -> Values:
    """Seconds of an all-reduce; `step_s` is what each step costs beside its bytes."""
    count = np.asarray(workers, dtype=np.float64)
    share_s = size_bytes / count / np.asarray(bytes_per_s)
    seconds: Values = 2 * (count - 1) * (share_s + np.asarray(step_s))
    return seconds


def overlapped_s(
    compute_s: ArrayLike,
    first_s: ArrayLike,
    parts: Iterable[Bucket],
    reduce_s: Callable[[float], Values],
) -> Values:
    """Seconds of a step whose buckets are averaged one after the other, as soon as they are known.

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


def expected_largest(count: ArrayLike, values: ArrayLike) -> Values:
    """Mean of the largest of `count` draws from equally likely values."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    below = np.arange(len(ordered) + 1) / len(ordered)
    powers = below ** np.atleast_1d(np.asarray(count))[:, None]
    largest: Values = np.diff(powers) @ ordered
    return largest

"""Greedy packings: each buffer is placed once, beside those already placed."""

from __future__ import annotations

import numpy as np

from workbench.memory.packing.buffers import Buffers, Ints


def none(buffers: Buffers) -> Ints:
    """Place each buffer behind the one before: nothing is shared."""
    return buffers.size.cumsum() - buffers.size


def greedy_by_size(buffers: Buffers) -> Ints:
    """Place the largest buffer first, each in the smallest gap that holds it (TFLite).

    Pisarchyk and Lee 2020.
    """
    return place_in_order(buffers, np.argsort(-buffers.size, kind="stable"), smallest_gap=True)


def best_fit(buffers: Buffers) -> Ints:
    """Place by first step; of buffers that begin together, the largest first.

    Each goes into the smallest free block that holds it, as XLA's lazy best-fit heap and caching
    allocators do at run time. Not knowing what is to come, it leaves holes.
    """
    order = np.lexsort((-buffers.size, buffers.lower))
    return place_in_order(buffers, order, smallest_gap=True, up_to_top=True)


def place_in_order(
    buffers: Buffers, order: Ints, *, smallest_gap: bool = False, up_to_top: bool = False
) -> Ints:
    """Place each buffer in the lowest gap that holds it, or in the smallest, at its lower end.

    What is free below the highest address in use is a gap, too, if `up_to_top`.
    """
    count = len(order)
    offsets = np.zeros(count, np.int64)
    placed = np.empty((4, count), np.int64)  # by rising offset: lower, upper, offset, end
    top = 0
    for number, buffer in enumerate(order):
        lower, upper, size = buffers.lower[buffer], buffers.upper[buffer], buffers.size[buffer]
        begins, ends = placed[0, :number], placed[1, :number]
        meets = ((begins < upper) & (ends > lower)).nonzero()[0]
        floors = np.zeros(len(meets) + 1, np.int64)
        np.maximum.accumulate(placed[3, meets], out=floors[1:])
        gaps = np.append(placed[2, meets], top if up_to_top else 0) - floors
        fits = (gaps >= size).nonzero()[0]
        chosen = len(meets) if not len(fits) else fits[gaps[fits].argmin() if smallest_gap else 0]
        offset = floors[chosen]
        offsets[buffer] = offset
        top = max(top, offset + size)
        column = placed[2, :number].searchsorted(offset)
        placed[:, column + 1 : number + 1] = placed[:, column:number]
        placed[:, column] = lower, upper, offset, offset + size
    return offsets

"""Greedy packings: each buffer is placed once, by what is already placed."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from workbench.memory.packing.buffers import Buffers, Effort, Ints


def none(buffers: Buffers, _effort: Effort) -> Ints:
    """Place each buffer behind the one before: nothing is shared."""
    return buffers.size.cumsum() - buffers.size


def greedy_by_size(buffers: Buffers, _effort: Effort) -> Ints:
    """Place the largest buffer first, each in the smallest gap that holds it (TFLite).

    Pisarchyk and Lee 2020.
    """
    return place_in_order(buffers, np.argsort(-buffers.size, kind="stable"), smallest_gap=True)


def place_in_order(buffers: Buffers, order: Ints, *, smallest_gap: bool = False) -> Ints:
    """Place each buffer in the lowest gap that holds it, or in the smallest, at its lower end."""
    offsets = np.zeros(len(buffers), np.int64)
    # Those placed, by rising offset: a column each, rows are lower, upper, offset and end.
    placed = np.empty((4, len(buffers)), np.int64)
    for count, buffer in enumerate(order):
        lower, upper, size = buffers.lower[buffer], buffers.upper[buffer], buffers.size[buffer]
        begins, ends = placed[0, :count], placed[1, :count]
        meets = ((begins < upper) & (ends > lower)).nonzero()[0]
        floors = np.zeros(len(meets) + 1, np.int64)
        np.maximum.accumulate(placed[3, meets], out=floors[1:])
        gaps = placed[2, meets] - floors[:-1]
        fits = (gaps >= size).nonzero()[0]
        chosen = len(meets) if not len(fits) else fits[gaps[fits].argmin() if smallest_gap else 0]
        offset = floors[chosen]
        offsets[buffer] = offset
        column = placed[2, :count].searchsorted(offset)
        placed[:, column + 1 : count + 1] = placed[:, column:count]
        placed[:, column] = lower, upper, offset, offset + size
    return offsets


def best_fit(buffers: Buffers, _effort: Effort) -> Ints:
    """Place by first step; of buffers that begin together, the largest first.

    Each goes into the smallest free block that holds it, as XLA's lazy best-fit heap and caching
    allocators do at run time. Not knowing what is to come, it leaves holes.
    """
    offsets = np.zeros(len(buffers), np.int64)
    free: list[tuple[int, int]] = []  # blocks by rising address: first byte, first byte behind
    top = 0
    ending: list[tuple[int, int]] = []
    for buffer in np.lexsort((-buffers.size, buffers.lower)).tolist():
        while ending and ending[0][0] <= buffers.lower[buffer]:
            _, ended = heappop(ending)
            free = _released(free, int(offsets[ended]), int(buffers.size[ended]))
        size = int(buffers.size[buffer])
        fitting = [(end - start, start) for start, end in free if end - start >= size]
        if fitting:
            length, start = min(fitting)
            place = free.index((start, start + length))
            free[place : place + 1] = [(start + size, start + length)] if length > size else []
        elif free and free[-1][1] == top:  # the memory grows from its last free block on
            start = free.pop()[0]
        else:
            start = top
        top = max(top, start + size)
        offsets[buffer] = start
        heappush(ending, (int(buffers.upper[buffer]), buffer))
    return offsets


def _released(free: list[tuple[int, int]], start: int, size: int) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for block in sorted([*free, (start, start + size)]):
        if joined and joined[-1][1] == block[0]:
            joined[-1] = (joined[-1][0], block[1])
        else:
            joined.append(block)
    return joined

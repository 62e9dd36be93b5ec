"""Buffers as they come, each in the smallest free block that holds it: an allocator at run time.

XLA's lazy best-fit heap and caching allocators work like this. Not knowing what is to come, it
leaves holes.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from workbench.olpb.memory.packing.buffers import Buffers, Effort, Ints


def best_fit(buffers: Buffers, _effort: Effort) -> Ints:
    """Place by first step; of buffers that begin together, the largest first."""
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

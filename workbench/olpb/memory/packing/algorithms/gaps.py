"""Placing buffers one after the other into gaps between those already placed."""

from __future__ import annotations

import numpy as np

from workbench.olpb.memory.packing.buffers import Buffers, Ints


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

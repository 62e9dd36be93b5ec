"""The paper's pebble game on blocks (Zhao et al., Sec. V-B), with the details of Owl's own code.

In each step operands that may be overwritten and are read for the last time let go of their blocks
(the pebble slides), the result takes one, and then the other operands of which this is the last
reading let go of theirs. A result takes the smallest free block that it fits in; else the largest
free one, which grows; else a new one.

Deviation: an operand lets go only of a block of the same size as the result, since the result has
to lie exactly where the operand does.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from workbench.memory.lifetimes import Lifetimes


def pebble(life: Lifetimes) -> NDArray[np.int64]:
    """Place each buffer in the free block of the closest size, in O(n log n)."""
    flow, size_of = life.flow, life.sizes.tolist()
    sizes: list[int] = []  # of blocks, which lie one after the other
    block_of = [0] * len(size_of)
    free: list[tuple[int, int]] = []  # size and number, ascending
    ending: list[list[int]] = [[] for _ in range(len(life.order) + 1)]
    for buffer, last in enumerate(life.last.tolist()):
        ending[last].append(buffer)
    for at, step in enumerate(life.order):
        made = flow.steps[step].makes
        slid = {int(life.places[buffer]): buffer for buffer in ending[at]}
        slides = {buffer: slid.pop(int(life.places[buffer]), None) for buffer in made}
        for buffer in slid.values():
            insort(free, (sizes[block_of[buffer]], block_of[buffer]))
        for buffer, before in slides.items():
            if before is not None:
                block = block_of[before]
            elif free:
                place = bisect_left(free, (size_of[buffer], -1))
                _, block = free.pop(min(place, len(free) - 1))
            else:
                block = len(sizes)
                sizes.append(0)
            block_of[buffer] = block
            sizes[block] = max(sizes[block], size_of[buffer])
    starts = np.array([0, *accumulate(sizes)], np.int64)
    return np.asarray(starts[block_of], np.int64)

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
    blocks, flow = _Blocks(life), life.flow
    free: list[tuple[int, int]] = []  # size and number, ascending
    ending: list[list[int]] = [[] for _ in range(len(life.order) + 1)]
    for buffer, last in enumerate(life.last.tolist()):
        ending[last].append(buffer)
    for at, step in enumerate(life.order):
        made = flow.steps[step].makes
        slid = {int(life.places[one]): one for one in ending[at]}
        slides = {one: slid.pop(int(life.places[one]), None) for one in made}
        for buffer in slid.values():
            insort(free, (blocks.sizes[blocks.of(buffer)], blocks.of(buffer)))
        for buffer, before in slides.items():
            if before is not None:
                blocks.use(buffer, blocks.of(before))
            elif free:
                found = bisect_left(free, (int(life.sizes[buffer]), -1))
                _, block = free.pop(min(found, len(free) - 1))
                blocks.use(buffer, block)
            else:
                blocks.add(buffer)
    return blocks.offsets


class _Blocks:
    """Blocks, one after the other, and which of them each buffer uses."""

    def __init__(self, life: Lifetimes) -> None:
        self.sizes: list[int] = []
        self._of = np.full(len(life.sizes), -1, np.int64)
        self._bytes = life.sizes

    def add(self, buffer: int) -> int:
        """Give a buffer a block of its own; its number."""
        self.sizes.append(0)
        self.use(buffer, len(self.sizes) - 1)
        return len(self.sizes) - 1

    def use(self, buffer: int, block: int) -> None:
        """Let a buffer use a block, which grows if it is too small."""
        self._of[buffer] = block
        self.sizes[block] = max(self.sizes[block], int(self._bytes[buffer]))

    def of(self, buffer: int) -> int:
        """Block of a buffer."""
        return int(self._of[buffer])

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Of each buffer."""
        starts = np.array([*accumulate(self.sizes, initial=0)][:-1], np.int64)
        return starts[self._of] if len(starts) else np.zeros(len(self._of), np.int64)

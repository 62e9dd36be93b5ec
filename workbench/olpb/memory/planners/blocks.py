"""Memory as blocks, one after the other, that several buffers use in turn."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from workbench.olpb.memory.lifetimes import Lifetimes


class Blocks:
    """Blocks so far, and which of them each buffer uses."""

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

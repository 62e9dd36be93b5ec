"""Cores of a node."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import simpy


class Cores:
    """How many are `free`, and the queue of those who wait for one.

    A node has new ones after a restart, so that what is left of before frees none of these.
    """

    __slots__ = ("free", "turns")

    def __init__(self, count: int) -> None:
        self.free = count
        self.turns: deque[simpy.Event] = deque()

    def release(self) -> None:
        """Pass a core to the first in the queue, or keep it free."""
        if self.turns:
            self.turns.popleft().succeed()
        else:
            self.free += 1

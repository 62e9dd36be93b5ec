"""The cores of a node in one of its lives, and who waits for one."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import simpy


class Cores:
    """How many are free; turns of those who wait, in the order in which they came.

    Each life of a node has its own, so that what is left of an earlier one frees none of these.
    """

    __slots__ = ("free", "turns")

    def __init__(self, count: int) -> None:
        self.free = count
        self.turns: deque[simpy.Event] = deque()

    def release(self) -> None:
        """Hand a core on, or keep it free."""
        if self.turns:
            self.turns.popleft().succeed()
        else:
            self.free += 1

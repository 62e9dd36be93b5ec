"""The clock of a simulation: SimPy's, with a total order of events.

Events are processed in the order of (time, priority, sequence), so that the same programs always
meet the same events.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappush
from typing import NoReturn

import simpy
from simpy.events import EventPriority

FIRST = EventPriority(0)
"""Faults, before all else in their instant."""
NORMAL = EventPriority(1)
LAST = EventPriority(2)
"""Shares of network interfaces, settled once for all that starts and ends in an instant."""
EXPIRY = EventPriority(3)
"""Waits that run out: what arrives in that instant is received."""

Callback = Callable[[simpy.Event], None]

CANCELLED: list[Callback] = []
_LEAST_PURGED = 64


class Kernel(simpy.Environment):
    """SimPy's environment with callbacks, which have a priority and can be cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self._counts = self._purged = self._cancelled = 0
        self.queue = self._queue

    def call_at(
        self, at_s: float, callback: Callback, priority: EventPriority = NORMAL
    ) -> simpy.Event:
        """Call back at a time that is not over, before or after what else happens then."""
        event = simpy.Event(self)
        event.callbacks.append(callback)
        event._ok, event._value = True, None
        heappush(self._queue, (at_s, priority, next(self._eid), event))
        return event

    def cancel(self, event: simpy.Event) -> None:
        """Drop an event of `call_at`.

        Cancelled events leave the queue once they are more than half of it: its length stays
        proportional to what may still happen, at a constant cost per event.
        """
        if event.processed:
            return
        event.callbacks = CANCELLED
        self._cancelled += 1
        queue = self._queue
        if self._cancelled > _LEAST_PURGED and 2 * self._cancelled > len(queue):
            before = len(queue)
            queue[:] = [item for item in queue if item[3].callbacks is not CANCELLED]
            heapify(queue)
            self._purged += before - len(queue)
            self._cancelled = 0

    def advance(self, to_s: float) -> None:
        """Let time pass until the next event at most."""
        self._now = to_s

    @property
    def events(self) -> int:
        """Events processed so far."""
        scheduled = next(self._eid) - self._counts  # every count takes a number for itself
        self._counts += 1
        return scheduled - len(self._queue) - self._purged


def refuse_endless(what: str) -> NoReturn:
    """Raise an OverflowError: something would end later than a float holds."""
    raise OverflowError(f"{what} would end after more seconds than a number holds")

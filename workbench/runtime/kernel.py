"""SimPy's clock and queue of events, which this package runs on.

Events are processed in the order of (time, priority, sequence): a total order, so that the same
programs always meet the same events. Faults come first in their instant, shares of network
interfaces are settled last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import simpy
from simpy.events import EventPriority

FIRST = EventPriority(0)
LAST = EventPriority(2)

Callback = Callable[[simpy.Event], None]

__all__ = ["FIRST", "LAST", "Kernel"]


class Kernel(simpy.Environment):
    """SimPy's environment, with callbacks at a priority and a count of events."""

    def __init__(self) -> None:
        super().__init__()
        self._counts = 0
        self.queue = self._queue

    def call(
        self, callback: Callback, priority: EventPriority, delay_s: float = 0.0
    ) -> simpy.Event:
        """Call back after a delay, before or after what else happens in that instant."""
        event = simpy.Event(self)
        event.callbacks.append(callback)
        event._ok, event._value = True, None
        self.schedule(event, priority, delay_s)
        return event

    def coming(self) -> Iterator[simpy.Event]:
        """Events to come that call anything back, in no order."""
        return (event for *_, event in self.queue if event.callbacks)

    def advance(self, to_s: float) -> None:
        """Let time pass until the next event at most."""
        self._now = to_s

    @property
    def events(self) -> int:
        """Events processed so far."""
        scheduled = next(self._eid) - self._counts  # every count takes a number for itself
        self._counts += 1
        return scheduled - len(self._queue)

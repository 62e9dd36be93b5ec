"""The kernel of the simulation on a real clock, to which other threads pass what happens."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop

import simpy

from workbench.runtime.kernel import CANCELLED, NORMAL, Kernel

Clock = Callable[[], float]
"""Seconds since the run began."""


class RunClock:
    """Seconds since the run began, on this machine's monotonic clock; 0 until it begins."""

    def __init__(self) -> None:
        self._began_s = math.inf

    def begin(self, at_s: float) -> None:
        """Let the run begin at a reading of `time.monotonic`."""
        self._began_s = at_s

    def __call__(self) -> float:
        """Seconds since it began."""
        return max(0.0, time.monotonic() - self._began_s)


class RealKernel(Kernel):
    """Processes each event when the clock has come to it.

    Programs see the clock: what they begin, begins now. With `ideal` an event's time is the one
    that it was scheduled for, even if it is processed a little later: links are timed so, and a
    delay of one transfer does not add to the next.
    """

    def __init__(self, clock: Clock, *, ideal: bool) -> None:
        super().__init__()
        self.clock, self._ideal = clock, ideal
        self._passed: deque[tuple[float, Callable[[], None]]] = deque()
        self._changed = threading.Condition()
        self._waits = False
        self.ends = False

    def pass_on(self, call: Callable[[], None], at_s: float | None = None) -> None:
        """Have this kernel's thread call something, as of now or of a time; from any thread."""
        with self._changed:
            self._passed.append((self.clock() if at_s is None else at_s, call))
            self._changed.notify()

    def end(self) -> None:
        """Let `serve` return; from any thread."""
        with self._changed:
            self.ends = True
            self._changed.notify()

    @property
    def quiet(self) -> bool:
        """Whether nothing is passed on and nothing runs."""
        with self._changed:
            return self._waits and not self._passed

    @property
    def idle(self) -> bool:
        """Whether nothing is scheduled or passed on, and nothing runs."""
        with self._changed:
            waits = self._waits and not self._passed
            return waits and not any(event.callbacks for *_, event in self._queue)

    def serve(self, until_s: float = math.inf, done: Callable[[], bool] = lambda: False) -> None:
        """Process events until a time, until `done` or until `end` is called."""
        while not (self.ends or done()):
            self._take()
            due_s, now_s = min(self._next_s(), until_s), self.clock()
            if due_s > now_s:
                self._wait(due_s)
            elif self._next_s() < until_s:
                self.step()
            else:
                return

    def step(self) -> None:
        """Process the next event."""
        at_s, _, _, event = heappop(self._queue)
        self._now = at_s if self._ideal else max(self._now, self.clock())
        callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
        for callback in callbacks:
            callback(event)
        if not event._ok and not hasattr(event, "_defused"):
            raise event._value

    def _take(self) -> None:
        """Schedule what other threads passed on, at its time, though not before what is over."""
        while self._passed:
            at_s, call = self._passed.popleft()
            self.call_at(max(at_s, self._now), partial(_call, call), NORMAL)

    def _next_s(self) -> float:
        queue = self._queue
        while queue and queue[0][3].callbacks is CANCELLED:
            heappop(queue)
        return queue[0][0] if queue else math.inf

    def _wait(self, due_s: float) -> None:
        with self._changed:
            if self._passed or self.ends:
                return
            self._waits = True
            wait_s = due_s - self.clock()
            if wait_s > 0:
                self._changed.wait(min(wait_s, threading.TIMEOUT_MAX))
            self._waits = False


def _call(call: Callable[[], None], _: simpy.Event) -> None:
    call()

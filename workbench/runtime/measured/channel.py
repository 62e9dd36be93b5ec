"""The connections from one node to another, of which the bytes take the one that counts now."""

from __future__ import annotations

import math
import socket
from collections import Counter, deque
from collections.abc import Callable, Sequence

from workbench.runtime.faults import Crash, Fault, Restart
from workbench.runtime.measured.frames import TAIL, Kind, Outgoing, Tail, frame

_MOST_PARTS = 64
_BUFFER_BYTES = 4 << 20


class Uptime:
    """When a node is up, by its crashes and restarts, and in which of its processes."""

    def __init__(self, node: int, faults: Sequence[Fault], index: Callable[[int | str], int]):
        self.times_s = sorted(
            fault.at_s
            for fault in faults
            if isinstance(fault, Crash | Restart) and index(fault.node) == node
        )

    @property
    def processes(self) -> int:
        """How many it has, one after the other."""
        return 1 + len(self.times_s) // 2

    def process(self, at_s: float) -> int | None:
        """How often it has been restarted by then; None while it is down."""
        changes = sum(time_s <= at_s for time_s in self.times_s)
        return None if changes % 2 else changes // 2

    def lasts(self, restarts: int) -> tuple[float, float]:
        """From when to when one of its processes is up."""
        edges_s = [0.0, *self.times_s, math.inf]
        return edges_s[2 * restarts], edges_s[2 * restarts + 1]


class Channel:
    """Writes messages to a target, whose processes have a connection each.

    Sockets never block: what they do not take at once is written by `flush`. What is sent to a
    node that is down goes nowhere, and a message that meets another process on its way, after a
    restart, is sent to that from its beginning.
    """

    def __init__(self, uptime: Uptime, clock: Callable[[], float]) -> None:
        self.uptime, self._clock = uptime, clock
        self.connections: dict[int, socket.socket] = {}
        self.handed: Counter[int] = Counter()  # messages, to each process
        self._message: Outgoing | None = None
        self._to: int | None = None  # which process has the message's head
        self._sent = 0
        self._line: int | None = None  # for which the bytes are that wait
        self._waiting: deque[memoryview] = deque()
        self._written = self._queued = 0
        self._marks: deque[tuple[int, Callable[[float], None]]] = deque()

    def add(self, restarts: int, connection: socket.socket) -> None:
        """Take a connection to one of the target's processes."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        connection.setblocking(False)
        self.connections[restarts] = connection

    @property
    def busy(self) -> bool:
        """Whether bytes wait that a socket did not take."""
        return bool(self._waiting)

    def begin(self, message: Outgoing) -> None:
        """Begin with a message."""
        self._message, self._to, self._sent = message, None, 0

    def advance(self, share: float, at_s: float) -> None:
        """Send up to a share of the message's bytes."""
        message = self._message
        assert message is not None
        to = self.uptime.process(at_s)
        if to is None or to not in self.connections:
            self._to = None
            return
        if to != self._to:
            self._to, self._sent = to, 0
            self._write(message.begin())
        upto = message.data_bytes if share >= 1 else int(share * message.data_bytes)
        if upto > self._sent:
            self._write(message.part(self._sent, upto))
            self._sent = upto

    def end(self, tail: Tail, at_s: float, done: Callable[[float], None]) -> None:
        """Send what is left, and the tail; tell `done` when the socket took the last byte."""
        self.advance(1.0, at_s)
        if self._to is not None:
            self._write(frame(Kind.TAIL, TAIL.pack(*tail)))
            self.handed[self._to] += 1
        self._message = None
        self._marks.append((self._queued, done))
        self.flush()

    def drop(self) -> None:
        """Give up the message that is being sent."""
        if self._message is not None and self._to is not None:
            self._write(frame(Kind.DROPPED))
        self._message = None

    def close(self) -> None:
        """Close all connections at once."""
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()
        self._waiting.clear()

    def finish(self) -> None:
        """Tell all processes that nothing more comes."""
        for restarts, connection in self.connections.items():
            connection.settimeout(5.0)
            try:
                if not (self._waiting and restarts == self._line):  # else a frame is cut short
                    connection.sendall(frame(Kind.LAST)[0])
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                continue

    def flush(self) -> None:
        """Write what waits, as far as the socket takes it."""
        at_s = self._clock()
        while self._waiting:
            assert self._line is not None
            connection = self.connections.get(self._line)
            if connection is None:
                self._forget()
                break
            parts = [self._waiting[place] for place in range(min(_MOST_PARTS, len(self._waiting)))]
            at_s = self._clock()
            try:
                count = connection.sendmsg(parts)
            except BlockingIOError:
                return
            except OSError:  # the other end is gone; what it was sent is lost
                connection.close()
                del self.connections[self._line]
                self._forget()
                break
            self._written += count
            while count:
                part = self._waiting[0]
                if count < part.nbytes:
                    self._waiting[0] = part[count:]
                    break
                count -= part.nbytes
                self._waiting.popleft()
        while self._marks and self._marks[0][0] <= self._written:
            self._marks.popleft()[1](at_s)

    def _forget(self) -> None:
        self._waiting.clear()
        self._written = self._queued

    def _write(self, parts: list[memoryview]) -> None:
        if self._line != self._to:
            self._forget()  # what waited was for a process that is gone
            self._line = self._to
        self._waiting.extend(parts)
        self._queued += sum(part.nbytes for part in parts)
        self.flush()

"""Where a node's process listens: whoever proves the run's token may send messages to it."""

from __future__ import annotations

import contextlib
import pickle
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from workbench.runtime.measured.frames import FRAME, TAIL, Head, Kind, Tail
from workbench.runtime.measured.handshake import Caller, accept, fill, receive
from workbench.runtime.measured.packing import unpack

_BUFFER_BYTES = 4 << 20
_MOST_AT_ONCE = 64
"""Callers that may be at the handshake; the oldest gives way to one more."""


class Arrival(NamedTuple):
    """A message that has come over a link, its payload still in pieces."""

    sender: int
    head: Head
    pieces: list[bytearray]
    tail: Tail

    def payload(self) -> Any:
        """What the message carries."""
        return unpack(self.pieces)


class Listener:
    """Listens for the other processes of the run; `read` gets each connection, in a thread."""

    def __init__(
        self, host: str, token: bytes, read: Callable[[socket.socket, Caller], None]
    ) -> None:
        self.token, self._read = token, read
        self.refused = 0
        self.failure: BaseException | None = None
        self._unproved: dict[socket.socket, None] = {}  # in the order in which they called
        self._open: dict[Caller, socket.socket] = {}
        self._changed = threading.Condition()
        self._listener = socket.create_server((host, 0), backlog=_MOST_AT_ONCE)
        threading.Thread(target=self._listen, name="listener", daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Stop listening and reading."""
        with self._changed:
            connections = [*self._open.values(), *self._unproved]
        for connection in (self._listener, *connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def wait_for_last(self, timeout_s: float) -> bool:
        """Wait until every caller has said that nothing more comes; whether all have."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout_s)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with self._changed:
                self._unproved[connection] = None
                if len(self._unproved) > _MOST_AT_ONCE:
                    oldest = next(iter(self._unproved))
                    del self._unproved[oldest]
                    with contextlib.suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            caller = self._admit(connection)
            if caller is None:
                self.refused += 1
                return
            try:
                self._read(connection, caller)
            except OSError:  # the other end is gone: silence
                pass
            except BaseException as error:
                self.failure = error
            finally:
                with self._changed:
                    del self._open[caller]
                    self._changed.notify_all()

    def _admit(self, connection: socket.socket) -> Caller | None:
        """Who calls, once both ends have proved the token; None if it is refused."""
        try:
            caller, answer = accept(connection, self.token)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            with self._changed:
                if caller in self._open:
                    return None
                self._open[caller] = connection
            with contextlib.suppress(OSError):  # then reading fails, too
                connection.sendall(answer)
        except OSError:
            return None
        finally:
            with self._changed:
                self._unproved.pop(connection, None)
        return caller


class Reception(Listener):
    """Reads the messages that the other nodes send.

    `arrived` is called for each message, from several threads; `ended` counts the messages of each
    caller up to then, lost ones included.
    """

    def __init__(self, host: str, token: bytes, arrived: Callable[[Arrival], None]) -> None:
        self.arrived = arrived
        self.ended: Counter[Caller] = Counter()
        super().__init__(host, token, self._read_messages)

    def _read_messages(self, connection: socket.socket, caller: Caller) -> None:
        message = _Incoming()
        while True:
            kind, length = FRAME.unpack(receive(connection, FRAME.size))
            if kind == Kind.DATA:
                for part in message.room(length):
                    fill(connection, part)
                continue
            content = receive(connection, length)
            if kind == Kind.HEAD:
                message = _Incoming(Head(*pickle.loads(content)))
            elif kind == Kind.TAIL:
                assert message.head is not None
                tail = Tail(*TAIL.unpack(content))
                self.arrived(Arrival(caller.node, message.head, message.pieces, tail))
                self.ended[caller] += 1
                message = _Incoming()
            elif kind == Kind.LAST:
                return


class _Incoming:
    """A message of which the data come, piece after piece."""

    def __init__(self, head: Head | None = None) -> None:
        self.head = head
        lengths = head.piece_bytes if head else ()
        self.pieces = [bytearray(length) for length in lengths]
        self._rooms = [memoryview(piece) for piece in self.pieces]
        self._scratch = memoryview(bytearray(1 << 16))

    def room(self, count: int) -> list[memoryview]:
        """Where the next bytes belong; zeros beyond the pieces go nowhere."""
        rooms = []
        while count:
            while self._rooms and not self._rooms[0].nbytes:
                self._rooms.pop(0)
            if self._rooms:
                room = self._rooms[0][:count]
                self._rooms[0] = self._rooms[0][len(room) :]
            else:
                room = self._scratch[:count]
            rooms.append(room)
            count -= len(room)
        return rooms

"""Connections between processes of a run, which prove to each other that they know its token.

Frames and the handshake are those of `multiprocessing.connection`: each end challenges the other,
and the token never travels. Nothing is unpickled before both have proved it; what follows is not
encrypted.
"""

from __future__ import annotations

import secrets
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import NamedTuple

TIMEOUT_S = 10.0
_AGAIN_S = 0.05
_MOST_UNPROVED = 64
"""Callers that may be at the handshake; the oldest gives way to one more."""
_BUFFER_BYTES = 4 << 20
_READY = b"ready"


class RefusedError(ConnectionError):
    """The other end does not know the token, or does not speak this protocol."""


class Caller(NamedTuple):
    """Who connects: a node, and how often it had been restarted."""

    node: int
    restarts: int


def new_token() -> bytes:
    """A token for one run."""
    return secrets.token_bytes(32)


def connect(address: tuple[str, int], caller: Caller, token: bytes) -> Connection:
    """Connect and prove the token; call again, up to a time limit, where others are in the way.

    Raises RefusedError: the other end does not answer, or cannot prove the token.
    """
    where = f"{address[0]}:{address[1]}"
    ends_s = time.monotonic() + TIMEOUT_S
    for tries in count(1):
        try:
            return _introduced(_framed(socket.create_connection(address, TIMEOUT_S)), caller, token)
        except (AuthenticationError, AssertionError) as error:
            raise RefusedError(f"{where} does not know the token of this run") from error
        except (OSError, EOFError) as error:
            if time.monotonic() > ends_s:
                raise RefusedError(
                    f"{where} ended {tries} connections within {TIMEOUT_S:g} s without an answer "
                    f"({error!r}); something else on this machine or network keeps it busy"
                ) from error
            time.sleep(_AGAIN_S)
    raise AssertionError("unreachable")


def _framed(connection: socket.socket) -> Connection:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, buffer, _BUFFER_BYTES)
    return Connection(connection.detach())


def _introduced(connection: Connection, caller: Caller, token: bytes) -> Connection:
    try:
        if not connection.poll(TIMEOUT_S):
            raise TimeoutError("no challenge")
        answer_challenge(connection, token)
        deliver_challenge(connection, token)
        connection.send(caller)
        connection.recv_bytes()
    except BaseException:
        connection.close()
        raise
    return connection


class Listener:
    """Listens for the other processes of a run, and serves each connection in a thread of its own.

    `refused` counts connections that did not prove the token.
    """

    def __init__(
        self, host: str, token: bytes, serve: Callable[[Connection, Caller], None]
    ) -> None:
        self.refused = 0
        self.failure: BaseException | None = None
        self._token, self._serve = token, serve
        self._unproved: dict[Connection, None] = {}  # in the order in which they called
        self._proved: set[Connection] = set()
        self._changed = threading.Condition()
        self._socket = socket.create_server((host, 0), backlog=_MOST_UNPROVED)
        threading.Thread(target=self._listen, name="listener", daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Stop listening, and end all connections."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._changed:
            for connection in (*self._unproved, *self._proved):
                _hang_up(connection)

    def wait_for_last(self, timeout_s: float) -> bool:
        """Wait until all callers have ended their connections; whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._proved, timeout_s)

    def _listen(self) -> None:
        while True:
            try:
                connection = _framed(self._socket.accept()[0])
            except OSError:  # closed
                return
            with self._changed:
                self._unproved[connection] = None
                if len(self._unproved) > _MOST_UNPROVED:
                    oldest = next(iter(self._unproved))
                    del self._unproved[oldest]
                    _hang_up(oldest)
            threading.Thread(target=self._admit, args=(connection,), daemon=True).start()

    def _admit(self, connection: Connection) -> None:
        try:
            deliver_challenge(connection, self._token)
            answer_challenge(connection, self._token)
            caller = connection.recv()
        except (OSError, EOFError, AuthenticationError, AssertionError):
            with self._changed:
                self.refused += 1
            self._end(connection)
            return
        with self._changed:
            self._unproved.pop(connection, None)
            self._proved.add(connection)
        try:
            connection.send_bytes(_READY)
            self._serve(connection, caller)
        except (OSError, EOFError):  # the other end is gone
            pass
        except BaseException as error:
            self.failure = error
        finally:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        with self._changed:
            self._unproved.pop(connection, None)
            self._proved.discard(connection)
            connection.close()
            self._changed.notify_all()


def send_together(connection: Connection, frames: Sequence[bytes | memoryview]) -> None:
    """Send frames; small ones leave together, so that the other end wakes up once."""
    with _socket_of(connection) as end:
        _cork(end, on=True)
        for frame in frames:
            connection.send_bytes(frame)
        _cork(end, on=False)


def _cork(end: socket.socket, *, on: bool) -> None:
    """Let the system hold back segments that are not full, or send them; on Linux alone."""
    if sys.platform == "linux":
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, on)


def takes(connection: Connection, count: int) -> bool:
    """Whether writing a number of bytes does not block: a quarter of the buffer at most."""
    if connection.closed:
        return True
    with _socket_of(connection) as end:
        poll = select.poll()
        poll.register(end, select.POLLOUT)  # Linux: at least a third of the buffer is free
        return count <= end.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 4 and bool(
            poll.poll(0)
        )


def _hang_up(connection: Connection) -> None:
    """End a connection from which another thread reads."""
    with suppress(OSError), _socket_of(connection) as end:
        end.shutdown(socket.SHUT_RDWR)


def _socket_of(connection: Connection) -> socket.socket:
    return socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)

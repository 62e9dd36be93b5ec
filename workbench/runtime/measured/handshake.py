"""Both ends of a connection prove that they know the run's token, which never travels.

The end that listens sends a challenge; the end that connects answers with its name, a challenge of
its own and the HMAC of all that under the token; the first answers likewise. Every part has a fixed
length, so that whatever a stranger sends is looked at as bytes and refused. What follows on the
connection is not encrypted.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

GREETING = b"workbench measured 1"
CHALLENGE_BYTES = PROOF_BYTES = 32
TIMEOUT_S = 10.0
_AGAIN_S = 0.05
_NAME = struct.Struct("!II")


class RefusedError(ConnectionError):
    """The other end does not know the token, or does not speak this protocol."""


class Caller(NamedTuple):
    """Who connects: a node, and how often it had been restarted."""

    node: int
    restarts: int


def new_token() -> bytes:
    """A token for one run."""
    return secrets.token_bytes(32)


def connect(address: tuple[str, int], caller: Caller, token: bytes) -> socket.socket:
    """Connect and prove the token; call again, up to a time limit, where nobody greets.

    Raises RefusedError: the other end does not greet, or cannot prove the token.
    """
    where = f"{address[0]}:{address[1]}"
    ends_s, tries = time.monotonic() + TIMEOUT_S, 0
    while True:
        tries += 1
        try:
            connection = socket.create_connection(address, timeout=TIMEOUT_S)
            with _closed_on_error(connection):
                opening = receive(connection, len(GREETING) + CHALLENGE_BYTES)
            break
        except OSError as error:  # others may occupy it for a while
            if time.monotonic() > ends_s:
                raise RefusedError(
                    f"{where} ended {tries} connections within {TIMEOUT_S:g} s without a greeting "
                    f"({error!r}); something else on this machine or network keeps it busy"
                ) from error
            time.sleep(_AGAIN_S)
    with _closed_on_error(connection):
        if not opening.startswith(GREETING):
            raise RefusedError(f"{where} is not a node of this run")
        theirs, ours = opening[len(GREETING) :], secrets.token_bytes(CHALLENGE_BYTES)
        name = _NAME.pack(*caller)
        try:
            connection.sendall(name + ours + _proof(token, b"caller", theirs, ours, name))
            answer = receive(connection, PROOF_BYTES)
        except ConnectionError as error:
            raise RefusedError(f"{where} hung up: it has another token") from error
        if not hmac.compare_digest(answer, _proof(token, b"listener", theirs, ours, name)):
            raise RefusedError(f"{where} does not know the token of this run")
    return _ready(connection)


@contextmanager
def _closed_on_error(connection: socket.socket) -> Iterator[None]:
    """Close a connection if the block fails."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def accept(connection: socket.socket, token: bytes) -> tuple[Caller, bytes]:
    """Let the caller prove the token, or RefusedError; return it with the proof to answer with."""
    connection.settimeout(TIMEOUT_S)
    ours = secrets.token_bytes(CHALLENGE_BYTES)
    connection.sendall(GREETING + ours)
    answer = receive(connection, _NAME.size + CHALLENGE_BYTES + PROOF_BYTES)
    name, rest = answer[: _NAME.size], answer[_NAME.size :]
    theirs, proof = rest[:CHALLENGE_BYTES], rest[CHALLENGE_BYTES:]
    if not hmac.compare_digest(proof, _proof(token, b"caller", ours, theirs, name)):
        raise RefusedError("a caller that does not know the token of this run")
    _ready(connection)
    return Caller(*_NAME.unpack(name)), _proof(token, b"listener", ours, theirs, name)


def fill(connection: socket.socket, room: memoryview) -> None:
    """Fill it with what comes; ConnectionResetError if the connection ends before."""
    while room.nbytes:
        count = connection.recv_into(room)
        if not count:
            raise ConnectionResetError
        room = room[count:]


def receive(connection: socket.socket, count: int) -> bytes:
    """Receive a number of bytes; ConnectionResetError if the connection ends before."""
    received = bytearray(count)
    fill(connection, memoryview(received))
    return bytes(received)


def _proof(token: bytes, role: bytes, *parts: bytes) -> bytes:
    return hmac.digest(token, b"\0".join((role, *parts)), "sha256")


def _ready(connection: socket.socket) -> socket.socket:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection

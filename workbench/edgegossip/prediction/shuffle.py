"""The shuffle of a MapReduce job: each worker process sends a part to each, over local sockets.

A connection carries one part of one job. Workers are told to leave a job one after the other, so
what comes late, of a job that was left, is dropped, and what comes early is kept for its turn.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 18
WAIT_S = 0.01
"""While nothing comes, a worker looks that often whether it is to leave."""

Key = tuple[int, int]
"""Which job: the number of the command, and of the job since that."""

_HEAD = struct.Struct("!IIII")
"""The key, who sends, how many runs; the length of each run (`_LENGTH`) and their bytes follow."""
_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True)
class Part:
    """Runs of bytes in a file.

    Parameters
    ----------
    path
        The file.
    runs
        Where each run begins, and how many bytes it has.
    """

    path: Path
    runs: tuple[tuple[int, int], ...]


class Peers:
    """One worker's connections with all, itself among them, as a node fetches from itself, too.

    A context manager. First all must `meet`.

    Attributes
    ----------
    port
        Where the others reach this one.
    number, count
        Which this one is, of how many.
    """

    def __init__(self) -> None:
        self._listening = socket.create_server((HOST, 0), backlog=socket.SOMAXCONN)
        self._listening.setblocking(False)
        self._incoming: list[_Incoming] = []
        self._ports: list[int] = []
        self.port: int = self._listening.getsockname()[1]
        self.number = self.count = 0

    def meet(self, ports: Sequence[int]) -> None:
        """Learn where all are; parts are in that order."""
        self._ports, self.number, self.count = list(ports), ports.index(self.port), len(ports)

    def exchange(
        self, key: Key, parts: Sequence[Part], folder: Path
    ) -> Generator[None, None, list[Part]]:
        """Send each worker its part; return what each sent here, in files in `folder`.

        Yields between pieces and while it waits, so that it can be left.

        Parameters
        ----------
        key
            Greater with every exchange, the same at all workers.
        parts
            One for each worker.
        folder
            Of this worker and job alone.
        """
        self._forget([one for one in self._incoming if one.key is not None and one.key < key])
        received: dict[int, Part] = {}
        outgoing: list[_Outgoing] = []
        with contextlib.ExitStack() as ending:
            for port, part in zip(self._ports, parts, strict=True):
                outgoing.append(ending.enter_context(_Outgoing(port, key, self.number, part)))
            while outgoing or len(received) < len(parts):
                # What has no key yet may be of this job, an earlier one or the next.
                awaited = [one for one in self._incoming if one.key in (None, key)]
                waited: list[socket.socket | _Incoming] = [self._listening, *awaited]
                readable, writable, _ = select.select(waited, outgoing, [], WAIT_S)
                if self._listening in readable:
                    self._accept()
                outgoing = [one for one in outgoing if one not in writable or not one.send()]
                for sender in (one for one in awaited if one in readable):
                    ended = sender.receive(folder)
                    if sender.part is not None:
                        received[sender.number] = sender.part
                    if ended or (sender.key or key) < key:
                        self._forget([sender])
                yield
        return [received[number] for number in range(len(parts))]

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            self._incoming.append(_Incoming(self._listening.accept()[0]))

    def _forget(self, some: Sequence[_Incoming]) -> None:
        for one in some:
            self._incoming.remove(one)
            one.close()

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *error: object) -> None:
        self._listening.close()
        self._forget(list(self._incoming))


class _Outgoing:
    """A part on its way to a worker."""

    def __init__(self, port: int, key: Key, number: int, part: Part) -> None:
        self._socket = socket.create_connection((HOST, port))
        self._socket.setblocking(False)
        self._file = part.path.open("rb")
        lengths = [length for _, length in part.runs]
        head = _HEAD.pack(*key, number, len(lengths)) + b"".join(map(_LENGTH.pack, lengths))
        self._runs, self._left = list(reversed(part.runs)), memoryview(head)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self) -> bool:
        """Send what the socket takes; whether that was all, or nobody takes the rest."""
        if not self._left:
            self._left = memoryview(self._next())
        try:
            self._left = self._left[self._socket.send(self._left) :]
            if self._left or self._runs:
                return False
            self._socket.shutdown(socket.SHUT_WR)  # by which an empty part is seen to be whole
        except BlockingIOError:
            return False
        except OSError:
            pass  # the other has left the job, and this one is about to be told
        return True

    def _next(self) -> bytes:
        first, length = self._runs.pop()
        if length > CHUNK_BYTES:
            self._runs.append((first + CHUNK_BYTES, length - CHUNK_BYTES))
        self._file.seek(first)
        return self._file.read(min(length, CHUNK_BYTES))

    def __enter__(self) -> _Outgoing:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()
        self._file.close()


class _Incoming:
    """A part that comes.

    Attributes
    ----------
    key, number
        Of which job and from whom, once its head has come.
    part
        Once it is whole.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._head, self._needed = b"", _HEAD.size
        self._lengths: list[int] = []
        self._left = 0
        self._file: BinaryIO | None = None
        self.key: Key | None = None
        self.number = -1
        self.part: Part | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self, folder: Path) -> bool:
        """Take what has come; whether there will be no more, for it is whole or its sender left."""
        wanted = self._left if self.key else self._needed - len(self._head)
        try:
            data = self._socket.recv(min(wanted, CHUNK_BYTES)) if wanted else b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        if wanted and not data:
            return True
        if self.key is None:
            self._read_head(data)
            return False
        return self._keep(data, folder)

    def _read_head(self, data: bytes) -> None:
        self._head += data
        if len(self._head) < self._needed:
            return
        command, job, number, runs = _HEAD.unpack_from(self._head)
        self._needed = _HEAD.size + runs * _LENGTH.size
        if len(self._head) == self._needed:
            lengths = _LENGTH.iter_unpack(self._head[_HEAD.size :])
            self._lengths = [length for (length,) in lengths]
            self._left = sum(self._lengths)
            self.key, self.number = (command, job), number

    def _keep(self, data: bytes, folder: Path) -> bool:
        path = folder / f"from-{self.number}"
        if self._file is None:
            self._file = path.open("wb")
        self._file.write(data)
        self._left -= len(data)
        if self._left:
            return False
        self._file.close()
        first = accumulate(self._lengths, initial=0)
        self.part = Part(path, tuple(zip(first, self._lengths, strict=False)))
        return True

    def close(self) -> None:
        self._socket.close()
        if self._file is not None:
            self._file.close()

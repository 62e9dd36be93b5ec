"""Processes that load cores, memory, network and disk of this machine beside a training.

They stand for the WordCount and Sort of Han et al. 2021 (Sec. 4.2, 4.4). Deviation: NumPy arrays
instead of a MapReduce framework; the input is generated, not read; what workers would exchange is
sent through the loopback.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from workbench.utils.checks import UserError, check_name, check_number, check_whole

SPLIT_BYTES = 1 << 20
"""Of input that a process works on at a time; between two of them it can be stopped."""
WORD_BYTES, RECORD_BYTES = 8, 100
CHUNK_BYTES = 1 << 15  # fits into a socket's buffer, so one thread can send and receive it

_random = np.random.default_rng(0)


@dataclass(frozen=True)
class Devices:
    """A nameless file, and both ends of a connection of a process with itself."""

    file: IO[bytes]
    sender: socket.socket
    receiver: socket.socket

    def write_and_read(self, data: bytes) -> None:
        """Force data to the disk and out of the cache, and read it."""
        self.file.seek(0)
        self.file.write(data)
        self.file.flush()
        os.fsync(self.file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.file.seek(0)
        self.file.read(len(data))

    def exchange(self, data: bytes) -> None:
        """Send and receive data."""
        for first in range(0, len(data), CHUNK_BYTES):
            chunk = data[first : first + CHUNK_BYTES]
            self.sender.sendall(chunk)
            self.receiver.recv(len(chunk), socket.MSG_WAITALL)


@contextlib.contextmanager
def devices(folder: str | Path) -> Iterator[Devices]:
    """Open them, the file in `folder`."""
    with (
        tempfile.TemporaryFile(dir=folder) as file,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sender,
        server.accept()[0] as receiver,
    ):
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield Devices(file, sender, receiver)


def count_words(size_bytes: int, on: Devices) -> None:
    """Count words and send the counts: loads cores and memory, and the network a little."""
    words, counts = np.unique(_text()[: -(-size_bytes // WORD_BYTES)], return_counts=True)
    on.exchange(words.tobytes() + counts.tobytes())


def sort_records(size_bytes: int, on: Devices) -> None:
    """Sort random records, write, read and send them: loads the disk and the network as well."""
    records = -(-size_bytes // RECORD_BYTES)
    made = np.frombuffer(_random.bytes(records * RECORD_BYTES), dtype=f"S{RECORD_BYTES}")
    ordered = np.sort(made).tobytes()
    on.write_and_read(ordered)
    on.exchange(ordered)


@cache
def _text() -> NDArray[np.bytes_]:
    """Words of a split; of 5,000, the k-th is drawn about 1 / k as often as the first."""
    words = np.array([f"{word:x}" for word in _random.integers(1 << 32, size=5000)], dtype="S8")
    shares = 1 / np.arange(1, len(words) + 1)
    return _random.choice(words, SPLIT_BYTES // WORD_BYTES, p=shares / shares.sum())


REST = "none"
WORKLOADS: dict[str, Callable[[int, Devices], None]] = {
    "wordcount": count_words,
    "sort": sort_records,
}
"""What is done with a split, by the name of the job."""


@dataclass(frozen=True)
class ChildProcess:
    """A running process; `child_process` makes one."""

    name: str
    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def send(self, line: str) -> None:
        """Write a line without waiting for the answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def receive(self) -> str:
        """Wait for the next line; RuntimeError with its last error message if it ended instead."""
        assert self.process.stdout is not None
        if line := self.process.stdout.readline():
            return line.decode().strip()
        raise self._ended()

    def ask(self, line: str) -> str:
        """Write a line and wait for the answer."""
        self.send(line)
        return self.receive()

    def _ended(self) -> RuntimeError:
        status = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else "without a message"
        return RuntimeError(f"the process {self.name} ended with status {status}: {reason}")


@contextlib.contextmanager
def child_process(function: Callable[..., None], *arguments: str) -> Iterator[ChildProcess]:
    """Run a module's function in a process that is killed at the end of the block.

    The process has a session of its own, so Ctrl-C reaches this process alone, which then ends it.
    `function` must return at the end of standard input, which comes if this process is killed.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    code = f"import sys; from {function.__module__} import {function.__qualname__} as function; "
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", code + "function(*sys.argv[1:])", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield ChildProcess(name, process, errors)
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


@dataclass(frozen=True)
class CoRunners:
    """Running processes; `co_runners` makes them.

    They rest at first. The temporary `folder` is on the disk that they load.
    """

    processes: Sequence[ChildProcess]
    folder: Path

    def run(self, workload: str, size_bytes: int, every_s: float = 0.0) -> list[int]:
        """Run jobs until the next call; return how many each process finished since the last.

        `workload` is a name in `WORKLOADS`, or `REST`; `size_bytes` the input of a job, all
        processes together. A job begins every `every_s` seconds, or as soon as the one before has
        ended.
        """
        check_name("workload", workload, (REST, *WORKLOADS))
        size = check_whole("size_bytes", size_bytes, 0)
        if not 0 <= check_number("every_s", every_s) < math.inf:
            raise UserError(f"every_s is {every_s}; give seconds, at least 0")
        share = -(-size // len(self.processes))
        for process in self.processes:
            process.send(f"{workload} {share} {every_s}")
        return [int(process.receive()) for process in self.processes]

    def rest(self) -> list[int]:
        """Stop the jobs; return how many each process finished."""
        return self.run(REST, 0)


@contextlib.contextmanager
def co_runners(processes: int | None = None) -> Iterator[CoRunners]:
    """Start processes, one a core by default; whatever ends the block, no process or file is left.

    >>> with co_runners() as others:
    ...     others.run("sort", size_bytes=2_000_000, every_s=0.1)
    ...     train()  # yours, or time.sleep(10)

    A `Monitor` takes children of this process for the task itself, unless it is given a source such
    as ``host_counters([pid of the training])``.
    """
    count = check_whole("processes", os.cpu_count() if processes is None else processes, 1)
    if os.name != "posix":
        raise UserError("co-runners need a POSIX system, such as Linux or macOS")
    with contextlib.ExitStack() as ending:  # in reverse: first the processes, then their folder
        folder = ending.enter_context(tempfile.TemporaryDirectory(prefix="workbench-"))
        started = [ending.enter_context(child_process(serve, folder)) for _ in range(count)]
        yield CoRunners(started, Path(folder))


def serve(folder: str, requests: int = 0) -> None:
    """Do what the lines of a file descriptor say until it ends, then remove the folder.

    A line ``workload bytes seconds`` is answered by the number of jobs finished since the one
    before. The folder is still there at the end only if the parent was killed.
    """
    _text()
    finished = 0
    with (
        contextlib.suppress(BrokenPipeError),  # the parent's end of the answers is gone
        open(requests, "rb", buffering=0, closefd=False) as lines,
        devices(folder) as own,
    ):
        while line := lines.readline():
            workload, size_bytes, every_s = line.decode().split()
            print(finished, flush=True)
            finished = 0
            if workload != REST:
                split = WORKLOADS[workload]
                finished = _repeat(split, int(size_bytes), float(every_s), own, requests)
    shutil.rmtree(folder, ignore_errors=True)


def _repeat(
    split: Callable[[int, Devices], None],
    size_bytes: int,
    every_s: float,
    own: Devices,
    requests: int,
) -> int:
    """Do one job after the other until there is a request; return how many were finished."""

    def requested(within_s: float) -> bool:
        return bool(select.select([requests], [], [], max(0.0, within_s))[0])

    due_s, finished = time.monotonic(), 0
    while not requested(due_s - time.monotonic()):
        due_s = max(due_s, time.monotonic()) + every_s
        for first in range(0, size_bytes, SPLIT_BYTES):
            split(min(SPLIT_BYTES, size_bytes - first), own)
            if requested(0):
                return finished
        finished += 1
    return finished

"""Processes that load cores, memory, network and disk of this machine beside a training.

They stand for the WordCount and Sort of Han et al. 2021 (Sec. 4.2, 4.4). Deviation: NumPy arrays
instead of a MapReduce framework; every split of the input is the same megabyte of the disk; what
workers would exchange is sent through the loopback.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import SynchronizedArray
from threading import Barrier
from typing import IO

import numpy as np

from workbench.utils.checks import UserError, check_name, check_number, check_whole

SPLIT_BYTES = 1 << 20
"""Bytes of input that a process works on at a time; between two splits it can be stopped."""
WORD_BYTES, RECORD_BYTES = 8, 100
CHUNK_BYTES = 1 << 15  # fits into a socket's buffer, so one thread can send and receive it


@dataclass(frozen=True)
class Devices:
    """Nameless files for input and output, and both ends of a connection with oneself."""

    input: IO[bytes]  # a split of text, then one of records
    output: IO[bytes]
    sender: socket.socket
    receiver: socket.socket

    def read_text(self, size_bytes: int) -> bytes:
        """Read at most a split of words from the disk."""
        return _read(self.input, 0, size_bytes)

    def read_records(self, size_bytes: int) -> bytes:
        """Read at most a split of random records from the disk."""
        return _read(self.input, SPLIT_BYTES, size_bytes)

    def write_and_read(self, data: bytes) -> None:
        """Force data to the disk and out of the cache, and read it."""
        _write(self.output, data)
        _read(self.output, 0, len(data))

    def exchange(self, data: bytes) -> None:
        """Send and receive data."""
        for first in range(0, len(data), CHUNK_BYTES):
            chunk = data[first : first + CHUNK_BYTES]
            self.sender.sendall(chunk)
            self.receiver.recv(len(chunk), socket.MSG_WAITALL)


def _write(file: IO[bytes], data: bytes) -> None:
    file.seek(0)
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _read(file: IO[bytes], first: int, size_bytes: int) -> bytes:
    """Read from the disk, not from the cache where the system can be told so."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    file.seek(first)
    return file.read(size_bytes)


@contextlib.contextmanager
def devices() -> Iterator[Devices]:
    """Open the devices of a process; its files are in the folder for temporary files."""
    with (
        tempfile.TemporaryFile(buffering=0) as input_file,
        tempfile.TemporaryFile(buffering=0) as output,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sender,
        server.accept()[0] as receiver,
    ):
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        records = -(-SPLIT_BYTES // RECORD_BYTES)
        _write(input_file, _text() + np.random.default_rng(1).bytes(records * RECORD_BYTES))
        yield Devices(input_file, output, sender, receiver)


def count_words(size_bytes: int, on: Devices) -> None:
    """Read and count words, and send the counts: loads cores, memory and the disk."""
    text = on.read_text(-(-size_bytes // WORD_BYTES) * WORD_BYTES)
    words, counts = np.unique(np.frombuffer(text, f"S{WORD_BYTES}"), return_counts=True)
    on.exchange(words.tobytes() + counts.tobytes())


def sort_records(size_bytes: int, on: Devices) -> None:
    """Read and sort records, write, read and send them: loads the network and the disk more."""
    records = on.read_records(-(-size_bytes // RECORD_BYTES) * RECORD_BYTES)
    ordered = np.sort(np.frombuffer(records, f"S{RECORD_BYTES}")).tobytes()
    on.write_and_read(ordered)
    on.exchange(ordered)


def _text() -> bytes:
    """Words of a split; of 5,000, the k-th is drawn about 1 / k as often as the first."""
    rng = np.random.default_rng(0)
    words = np.array([f"{word:x}" for word in rng.integers(1 << 32, size=5000)], dtype="S8")
    shares = 1 / np.arange(1, len(words) + 1)
    return rng.choice(words, SPLIT_BYTES // WORD_BYTES, p=shares / shares.sum()).tobytes()


REST = "none"
WORKLOADS: dict[str, Callable[[int, Devices], None]] = {
    "wordcount": count_words,
    "sort": sort_records,
}
"""Function of a split, by the name of the job."""


_JOBS = (REST, *WORKLOADS)
LATE_S = 0.01
"""Most seconds that a job begins late."""
START_S = 120.0
"""Most seconds that processes take to start."""


@dataclass(frozen=True)
class CoRunners:
    """Running processes, which rest at first; `co_runners` makes them."""

    processes: Sequence[BaseProcess]
    job: SynchronizedArray[float]  # number in `_JOBS`, bytes of each process, seconds between jobs

    def run(self, workload: str, size_bytes: int, every_s: float = 0.0) -> None:
        """Run jobs until the next call.

        `workload` is a name in `WORKLOADS`, or `REST`; `size_bytes` the input of a job, all
        processes together. A job begins every `every_s` seconds, or as soon as the one before has
        ended.

        Raises RuntimeError: a process has ended.
        """
        check_name("workload", workload, _JOBS)
        size = check_whole("size_bytes", size_bytes, 0)
        if not 0 <= check_number("every_s", every_s) < math.inf:
            raise UserError(f"every_s is {every_s}; give seconds, at least 0")
        for process in self.processes:
            if not process.is_alive():
                raise RuntimeError(
                    f"a co-runner ended with status {process.exitcode}; its reason is on standard "
                    "error"
                )
        self.job[:] = [_JOBS.index(workload), -(-size // len(self.processes)), every_s]


@contextlib.contextmanager
def co_runners(processes: int | None = None) -> Iterator[CoRunners]:
    """Start processes, one a core by default; whatever ends the block, no process is left.

    >>> with co_runners() as others:
    ...     others.run("sort", size_bytes=2_000_000, every_s=0.1)
    ...     train()  # yours, or time.sleep(10)

    In a script it stands below ``if __name__ == "__main__":``, since the processes import the
    script. A `Monitor` takes children of this process for the task itself, unless it is given the
    source ``host_counters(descendants=False)``.
    """
    count = check_whole("processes", os.cpu_count() if processes is None else processes, 1)
    context = multiprocessing.get_context("spawn")  # not copies of this process with its threads
    job, ready = context.Array("d", 3), context.Barrier(count + 1)
    started = [context.Process(target=_do, args=(job, ready), daemon=True) for _ in range(count)]
    try:
        for process in started:
            process.start()
        ready.wait(START_S)
        yield CoRunners(started, job)
    finally:
        for process in started:
            if process.pid is not None:
                process.kill()
                process.join()


def _do(job: SynchronizedArray[float], ready: Barrier) -> None:
    """Do the job that is wanted over and over, until another is wanted, then that one.

    Until the parent has ended; Ctrl-C reaches the parent alone, which then ends this process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    due_s, before = 0.0, [0.0, 0.0, 0.0]
    with devices() as own:
        ready.wait()
        while parent.is_alive():
            wanted, now_s = job[:], time.monotonic()
            number, size_bytes, every_s = int(wanted[0]), int(wanted[1]), wanted[2]
            if wanted != before:
                due_s, before = now_s, wanted
            if not number or now_s < due_s:
                time.sleep(min(LATE_S, due_s - now_s) if number else LATE_S)
                continue
            due_s = max(due_s + every_s, now_s)
            for first in range(0, size_bytes, SPLIT_BYTES):
                if job[:] != wanted or not parent.is_alive():
                    break
                WORKLOADS[_JOBS[number]](min(SPLIT_BYTES, size_bytes - first), own)

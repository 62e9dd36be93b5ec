"""What runs beside the training: jobs like MapReduce's WordCount and Sort (Han et al. 2021, 4.4).

A job is a generator that yields after each piece of its input, so that it can be left at any
piece; what it keeps on the disk is gone when it ends or is left.

Deviation: plain Python instead of a MapReduce framework. Each worker process does its share of
the input as a map task of its own; results are not brought together.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import random
import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO

PIECE_BYTES = 1 << 20
RECORD_BYTES = 100
MOST_RUNS = 64
"""Sorted files that are merged at once, well below what a process may have open."""

Job = Callable[[int, Path], Iterator[object]]
"""Bytes of input, folder for its files -> a generator."""


@cache
def _text() -> bytes:
    """One piece of text: 5,000 words, the k-th about 1 / k as often as the first."""
    generator = random.Random(0)
    words = [f"{generator.getrandbits(40):x}".encode() for _ in range(5000)]
    drawn = generator.choices(words, [1 / rank for rank in range(1, 5001)], k=PIECE_BYTES // 8)
    return b" ".join(drawn)[:PIECE_BYTES]


def word_count(size_bytes: int, folder: Path) -> Iterator[Counter[bytes]]:
    """Count words of generated text, a piece after the other; yields the counts so far.

    Work for the processor and the memory; nothing is written.
    """
    counts: Counter[bytes] = Counter()
    for piece_bytes in _pieces(size_bytes, PIECE_BYTES):
        counts.update(_text()[:piece_bytes].split())
        yield counts


def sort(size_bytes: int, folder: Path) -> Iterator[int]:
    """Sort random records by way of temporary files; yields the bytes dealt with so far.

    Pieces are sorted in memory and written, then merged from the disk to the disk: an external
    merge sort. Files are forced to the disk and out of the memory that caches them, since it is
    the disk that this job is to be felt on.
    """
    names = [folder / f"{os.getpid()}-{kind}" for kind in ("merged",)]
    generator, dealt = random.Random(size_bytes), 0
    try:
        for piece_bytes in _pieces(size_bytes, max(PIECE_BYTES, size_bytes // MOST_RUNS)):
            count = max(1, piece_bytes // RECORD_BYTES)
            data = generator.randbytes(count * RECORD_BYTES)
            records = [data[at : at + RECORD_BYTES] for at in range(0, len(data), RECORD_BYTES)]
            names.append(folder / f"{os.getpid()}-{len(names)}")
            with names[-1].open("wb") as run:
                run.writelines(sorted(records))
                _to_disk(run)
            dealt += len(data)
            yield dealt
        with contextlib.ExitStack() as files:
            runs = [files.enter_context(name.open("rb")) for name in names[1:]]
            merged = files.enter_context(names[0].open("wb"))
            for number, record in enumerate(heapq.merge(*map(_records, runs)), start=1):
                merged.write(record)
                if number % (PIECE_BYTES // RECORD_BYTES) == 0:
                    yield dealt + number * RECORD_BYTES
            _to_disk(merged)
        yield 2 * dealt
    finally:
        for name in names:
            name.unlink(missing_ok=True)


WORKLOADS: dict[str, Job] = {"wordcount": word_count, "sort": sort}
"""Jobs by name."""


def _pieces(size_bytes: int, piece_bytes: int) -> Iterator[int]:
    for first in range(0, size_bytes, piece_bytes):
        yield min(piece_bytes, size_bytes - first)


def _records(run: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: run.read(RECORD_BYTES), b"")


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def serve(folder: Path, commands: int = 0) -> None:
    """Run jobs as standard input says, until it ends.

    A line ``workload bytes seconds`` begins such a job every so many seconds, or as soon as the
    one before has ended, until the next line; ``none 0 0`` rests. Each line is answered by one
    when the job before has been left. A process whose master has gone finds its input at an end.

    Parameters
    ----------
    folder
        Where the jobs keep their files.
    commands
        File descriptor of the input.
    """
    _text()
    with open(commands, "rb", buffering=0, closefd=False) as lines:
        while line := lines.readline():
            workload, size, every = line.decode().split()
            print("begun", flush=True)
            if workload != "none":
                _repeat(WORKLOADS[workload], int(size), float(every), folder, commands)


def _repeat(job: Job, size_bytes: int, every_s: float, folder: Path, commands: int) -> None:
    due_s = time.monotonic()
    while not _told(commands, due_s - time.monotonic()):
        due_s = max(due_s, time.monotonic()) + every_s
        pieces = job(size_bytes, folder)
        with contextlib.closing(pieces):  # type: ignore[type-var]
            for _ in pieces:
                if _told(commands, 0):
                    break


def _told(commands: int, within_s: float) -> bool:
    """Whether there is a command, or no more will come."""
    return bool(select.select([commands], [], [], max(0.0, within_s))[0])


if __name__ == "__main__":
    serve(Path(sys.argv[1]))

"""Jobs like MapReduce's WordCount and Sort, that run beside the training (Han et al. 2021, 4.4).

As many workers as the machine has cores share a job. Each maps its share of the input, a split
after the other, writing what it finds to the disk by whom it is for; they exchange that by the
network (`shuffle`); each reduces what it got to a file. A job is a generator that yields after
each piece of work, so that it can be left at any.

Deviation: plain Python instead of a MapReduce framework; the input is made, not read; and all
workers are on one machine, so what they exchange goes through its loopback.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import random
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from workbench.edgegossip.prediction.shuffle import Part

SPLIT_BYTES = 1 << 20
RECORD_BYTES = 100
MOST_SPLITS = 64
"""Of a worker that sorts: as many sorted runs come from each, and are merged at once."""
READ_BYTES = 500 * RECORD_BYTES

Shuffle = Callable[[Sequence[Part], Path], Generator[None, None, list[Part]]]
"""Sends each worker its part; returns what each sent, in files in the folder."""


@dataclass(frozen=True)
class Task:
    """A worker's share of a job.

    Parameters
    ----------
    size_bytes
        Of its input.
    number, workers
        Which worker it is, of how many.
    folder
        For its files; empty, and no other's.
    shuffle
        Exchanges parts with the other workers.
    """

    size_bytes: int
    number: int
    workers: int
    folder: Path
    shuffle: Shuffle


Steps = Generator[Path | None, None, None]
"""What it yields last is the file with the worker's share of the outcome."""

Job = Callable[[Task], Steps]


@cache
def text() -> bytes:
    """Return one split of text: 5,000 words, the k-th about 1 / k as often as the first."""
    generator = random.Random(0)
    words = [f"{generator.getrandbits(40):x}".encode() for _ in range(5000)]
    drawn = generator.choices(words, [1 / rank for rank in range(1, 5001)], k=SPLIT_BYTES // 8)
    return b" ".join(drawn)[:SPLIT_BYTES]


def word_count(task: Task) -> Steps:
    """Count words of made text; the outcome has a line ``word count`` for each word of the share.

    Work for the processor and the memory; files are small, and most are gone before they get to
    the disk.
    """

    def mapped(split_bytes: int) -> list[bytes]:
        lines: list[list[bytes]] = [[] for _ in range(task.workers)]
        for word, count in Counter(text()[:split_bytes].split()).items():
            lines[zlib.crc32(word) % task.workers].append(b"%b %d\n" % (word, count))
        return [b"".join(its) for its in lines]

    received = yield from _map_and_shuffle(task, SPLIT_BYTES, mapped)
    counts: Counter[bytes] = Counter()
    for part in received:
        with part.path.open("rb") as file:
            for first, length in part.runs:
                file.seek(first)
                for line in file.read(length).splitlines():
                    word, _, number = line.partition(b" ")
                    counts[word] += int(number)
                yield None
    outcome = task.folder / "outcome"
    outcome.write_bytes(b"".join(b"%b %d\n" % pair for pair in sorted(counts.items())))
    yield outcome


def sort(task: Task) -> Steps:
    """Sort random records: an external merge sort, of which each worker gets a range of keys.

    Splits are sorted in memory and written, exchanged, and merged from file to file. What is
    written is forced to the disk and out of the memory that caches it, since it is the disk that
    this job is to be felt on.
    """
    generator = random.Random(task.number)
    limits = [-(-(number << 16) // task.workers) for number in range(1, task.workers)]

    def mapped(split_bytes: int) -> list[bytes]:
        data = generator.randbytes(max(1, split_bytes // RECORD_BYTES) * RECORD_BYTES)
        records = sorted(_records(data))
        starts = [bisect_left(records, limit.to_bytes(2, "big")) for limit in limits]
        bounds = zip([0, *starts], [*starts, len(records)], strict=True)
        return [b"".join(records[first:last]) for first, last in bounds]

    split_bytes = max(SPLIT_BYTES, -(-task.size_bytes // MOST_SPLITS))
    received = yield from _map_and_shuffle(task, split_bytes, mapped, forced=True)
    outcome = task.folder / "outcome"
    with contextlib.ExitStack() as files:
        merged = files.enter_context(outcome.open("wb"))
        runs = []
        for part in received:
            file = files.enter_context(part.path.open("rb"))
            runs += [_read(file, *run) for run in part.runs]
        for number, record in enumerate(heapq.merge(*runs), start=1):
            merged.write(record)
            if number % (READ_BYTES // RECORD_BYTES) == 0:
                yield None
        _to_disk(merged)
    yield outcome


def _map_and_shuffle(
    task: Task, split_bytes: int, mapped: Callable[[int], list[bytes]], *, forced: bool = False
) -> Generator[None, None, list[Part]]:
    """Map split after split to a file, what is for each worker apart; return what came from each.

    A spill that is `forced` to the disk is read from there, too.
    """
    spilled = task.folder / "spilled"
    runs: list[list[tuple[int, int]]] = [[] for _ in range(task.workers)]
    with spilled.open("wb") as file:
        for first in range(0, task.size_bytes, split_bytes):
            outputs = mapped(min(split_bytes, task.size_bytes - first))
            for run, output in zip(runs, outputs, strict=True):
                run.append((file.tell(), file.write(output)))
            if forced:
                _to_disk(file)
            yield None
    parts = [Part(spilled, tuple(run)) for run in runs]
    return (yield from task.shuffle(parts, task.folder))


WORKLOADS: dict[str, Job] = {"wordcount": word_count, "sort": sort}
"""Jobs by name."""


def _records(data: bytes) -> list[bytes]:
    return [data[at : at + RECORD_BYTES] for at in range(0, len(data), RECORD_BYTES)]


def _read(file: IO[bytes], first: int, length: int) -> Iterator[bytes]:
    """Records of a run; the file may be read elsewhere in between."""
    for at in range(first, first + length, READ_BYTES):
        file.seek(at)
        yield from _records(file.read(min(READ_BYTES, first + length - at)))


def _to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

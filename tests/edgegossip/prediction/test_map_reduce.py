"""Jobs beside the training, whose outcome is right whatever the number of workers."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tests.edgegossip.workers import run
from workbench.edgegossip.prediction import map_reduce
from workbench.edgegossip.prediction.map_reduce import (
    RECORD_BYTES,
    SPLIT_BYTES,
    sort,
    text,
    word_count,
)
from workbench.edgegossip.prediction.shuffle import Part

SIZES = [1, 1000, 12 * RECORD_BYTES, 2 * SPLIT_BYTES + 5]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("size", SIZES)
def test_words_are_counted(size: int, workers: int, tmp_path: Path) -> None:
    found: Counter[bytes] = Counter()
    lines = 0
    for outcome in run(word_count, size, workers, tmp_path):
        for line in outcome.splitlines():
            word, count = line.split()
            found[word] += int(count)
            lines += 1
    expected: Counter[bytes] = Counter()
    left = size
    while left > 0:
        for word in text()[:left].split():
            expected[word] += workers
        left -= SPLIT_BYTES
    assert found == expected
    assert lines == len(expected)  # no word is at two workers
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("size", SIZES)
def test_records_are_sorted(size: int, workers: int, tmp_path: Path) -> None:
    outcomes = run(sort, size, workers, tmp_path)
    merged = b"".join(outcomes)
    records = [merged[at : at + RECORD_BYTES] for at in range(0, len(merged), RECORD_BYTES)]
    expected = []
    for number in range(workers):
        generator = random.Random(number)
        for first in range(0, size, SPLIT_BYTES):
            for _ in range(max(1, min(SPLIT_BYTES, size - first) // RECORD_BYTES)):
                expected.append(generator.randbytes(RECORD_BYTES))
    assert records == sorted(expected)
    if size > SPLIT_BYTES:  # ranges of the keys, so each has about as much
        shares = [len(outcome) / len(merged) for outcome in outcomes]
        assert min(shares) > 0.9 / workers
    assert list(tmp_path.iterdir()) == []


def test_not_more_runs_than_can_be_merged_at_once(tmp_path: Path) -> None:
    task = map_reduce.Task(3 * map_reduce.MOST_SPLITS * SPLIT_BYTES, 0, 1, tmp_path, no_shuffle)
    steps = sort(task)
    next(steps)
    next(steps)
    assert (tmp_path / "spilled").stat().st_size > 2 * 2 * SPLIT_BYTES


def test_a_spill_is_forced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", forced.append)
    run(sort, SPLIT_BYTES, 1, tmp_path)
    assert len(forced) == 2  # what was sorted, and what was merged
    run(word_count, SPLIT_BYTES, 1, tmp_path)
    assert len(forced) == 2


def no_shuffle(parts: Sequence[Part], folder: Path) -> Generator[None, None, list[Part]]:
    yield from ()
    raise AssertionError("it got to the shuffle")

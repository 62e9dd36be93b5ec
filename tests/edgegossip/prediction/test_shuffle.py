"""The shuffle: what arrives, and what becomes of jobs that are left."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.edgegossip.workers import met
from workbench.edgegossip.prediction.shuffle import CHUNK_BYTES, Key, Part, Peers

Exchange = Generator[None, None, list[Part]]


def part(path: Path, runs: Sequence[bytes]) -> Part:
    """Runs in a file, a byte that is no one's before each."""
    places, written = [], b""
    for run in runs:
        places.append((len(written) + 1, len(run)))
        written += b"-" + run
    path.write_bytes(written)
    return Part(path, tuple(places))


def exchange(peer: Peers, key: Key, runs: Sequence[Sequence[bytes]], folder: Path) -> Exchange:
    own = folder / f"{peer.number}-{key[0]}-{key[1]}"
    own.mkdir(parents=True)
    return peer.exchange(key, [part(own / f"to-{n}", its) for n, its in enumerate(runs)], own)


def finish(running: Sequence[Exchange]) -> list[list[list[bytes]]]:
    """Run all to their ends, in turn; the runs that each got of each."""
    found: dict[int, list[list[bytes]]] = {}
    for _ in range(100_000):
        for number, one in enumerate(running):
            if number not in found:
                try:
                    next(one)
                except StopIteration as end:
                    found[number] = [read(part) for part in end.value]
        if len(found) == len(running):
            return [found[number] for number in range(len(running))]
    raise AssertionError("the exchange does not end")


def read(part: Part) -> list[bytes]:
    data = part.path.read_bytes() if part.path.exists() else b""
    assert sum(length for _, length in part.runs) == len(data)
    return [data[first : first + length] for first, length in part.runs]


@settings(max_examples=30, deadline=None)
@given(data=st.data(), count=st.integers(1, 4))
def test_everybody_gets_what_was_for_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, count: int
) -> None:
    runs = st.lists(st.binary(max_size=20), max_size=3)
    sent = [[data.draw(runs) for _ in range(count)] for _ in range(count)]
    folder = tmp_path_factory.mktemp("shuffle")
    with met(count) as peers:
        got = finish([exchange(one, (0, 0), sent[one.number], folder) for one in peers])
    assert got == [[sent[source][to] for source in range(count)] for to in range(count)]


def test_more_than_a_socket_holds(tmp_path: Path) -> None:
    large = bytes(range(256)) * (20 * CHUNK_BYTES // 256) + b"end"
    with met(2) as peers:
        got = finish([exchange(one, (0, 0), [[large, b"x"], [large]], tmp_path) for one in peers])
    assert got == [[[large, b"x"]] * 2, [[large]] * 2]


def test_a_job_that_was_left_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    large = b"old" * 20 * CHUNK_BYTES
    with met(2) as (first, second):
        old = [exchange(one, (0, 0), [[large]] * 2, tmp_path) for one in (first, second)]
        for _ in range(3):
            for one in old:
                next(one)
        # The first is told earlier, and is in the next job while the second is in the old one.
        old[0].close()
        new = exchange(first, (1, 0), [[b"a"], [b"b"]], tmp_path)
        for _ in range(20):
            next(new)
            next(old[1])
        old[1].close()
        got = finish([new, exchange(second, (1, 0), [[b"c"], [b"d"]], tmp_path)])
        assert got == [[[b"a"], [b"c"]], [[b"b"], [b"d"]]]
        assert first._incoming == second._incoming == []


def test_it_waits_for_those_who_are_late(tmp_path: Path) -> None:
    with met(2) as (first, second):
        waiting = exchange(first, (0, 0), [[b"a"], [b"b"]], tmp_path)
        for _ in range(10):
            next(waiting)
        got = finish([waiting, exchange(second, (0, 0), [[b"c"], [b"d"]], tmp_path)])
    assert got == [[[b"a"], [b"c"]], [[b"b"], [b"d"]]]

"""Bytes reach a process whole and in order, however slowly it reads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.measured.listening import Listening
from tests.runtime.programs import pair
from workbench.runtime import Crash, Fault, Message, Restart
from workbench.runtime.measured.frames import End
from workbench.runtime.measured.network import Network, OutgoingLink
from workbench.runtime.measured.packing import pack


class Reader(Listening):
    """A process that reads what a link writes."""

    def payloads(self, link: OutgoingLink) -> list[Any]:
        """Of all messages, once the link is closed."""
        link.close()
        assert self.listener.wait_for_last(60)
        return [arrival.message.payload for _, arrival in self.arrivals]


def link_to(*readers: Reader, faults: Sequence[Fault] = ()) -> OutgoingLink:
    """A link whose bytes the test releases."""
    network = Network(pair(), 0, lambda: 0.0, seed=0, faults=faults, sent=lambda _: None)
    link = network.links[1]
    link.pipe, network.announce = None, lambda *_: None
    for restarts, reader in enumerate(readers):
        link.connections[restarts] = reader.connect()
    return link


def enqueue(link: OutgoingLink, payload: Any, size_bytes: float = 0.0) -> None:
    link._enqueue(Message(0, "x", pack(payload), size_bytes))


def send(link: OutgoingLink, payload: Any, *shares: float, size_bytes: float = 0.0) -> None:
    enqueue(link, payload, size_bytes)
    for share in shares:
        link.release(0.0, share, 0.0)
    link.end(0.0, End(False, 0.0), 0.0)


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.close()


def test_slow_reader_gets_all(reader: Reader) -> None:
    """More than the sockets hold waits, and messages that begin meanwhile lose nothing of it."""
    link = link_to(reader)
    reader.may_go_on.clear()
    whole = np.arange(4_000_000.0)
    for number in range(5):
        send(link, (number, whole), 0.3, 0.6)
    assert link.busy
    reader.may_go_on.set()
    found = reader.payloads(link)
    assert [number for number, _ in found] == list(range(5))
    assert all(np.array_equal(array, whole) for _, array in found)
    assert link.whole == {0: 5}


@given(
    sizes=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 300_000)), max_size=5),
    shares=st.lists(st.floats(0, 1), max_size=4),
)
def test_any_payload_in_any_parts(sizes: list[tuple[int, int]], shares: list[float]) -> None:
    reader = Reader()
    link = link_to(reader)
    for length, size_bytes in sizes:
        send(link, np.arange(length), *sorted(shares), size_bytes=size_bytes)
    found = reader.payloads(link)
    reader.close()
    assert [array.tolist() for array in found] == [list(range(length)) for length, _ in sizes]


def test_message_that_meets_a_restart_goes_to_the_new_process_whole(reader: Reader) -> None:
    later = Reader()
    link = link_to(reader, later, faults=[Crash(1, 1.0), Restart(1, 2.0)])
    send(link, "before")
    enqueue(link, "across", 1_000.0)
    for share, at_s in ((0.3, 0.9), (0.5, 1.5), (0.7, 2.5)):
        link.release(0.5, share, at_s)
    link.end(0.5, End(False, 3.0), 3.0)
    assert later.payloads(link) == ["across"]
    assert reader.payloads(link) == ["before"]
    assert link.whole == {0: 1, 1: 1}
    later.close()


def test_message_that_is_lost_halfway_does_not_arrive(reader: Reader) -> None:
    link = link_to(reader)
    enqueue(link, "lost", 1_000.0)
    link.release(0.0, 0.5, 0.0)
    link.lose(1, 0.25)
    send(link, "kept")
    assert reader.payloads(link) == ["kept"]
    assert (link.use.lost, link.use.messages, link.use.busy_s) == (1, 1, 0.25)


def test_as_many_bytes_travel_as_the_message_has(reader: Reader) -> None:
    written: list[int] = []
    link = link_to(reader)
    own = link.connections[0].send_bytes

    def counts(data: Any) -> None:
        written.append(len(data))
        own(data)

    link.connections[0].send_bytes = counts  # type: ignore[method-assign, assignment]
    send(link, "small", 0.5, size_bytes=300_000)
    assert reader.payloads(link) == ["small"]
    _head, *data, _end = written
    assert sum(data) == 300_000


def test_reader_that_is_gone_loses_what_it_is_sent(reader: Reader) -> None:
    link = link_to(reader)
    reader.close()
    for _ in range(50):
        send(link, np.zeros(100_000), 0.5)
    while link.busy:
        time.sleep(0.01)
    assert link.connections[0].closed

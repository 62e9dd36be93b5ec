"""Bytes reach the process that is up, whole and in order, however slowly it reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.measured.receptions import Listening
from workbench.runtime import Crash, Message, Restart
from workbench.runtime.measured.channel import Channel, Uptime
from workbench.runtime.measured.frames import Outgoing, Tail
from workbench.runtime.measured.packing import pack


class Reader(Listening):
    """A process that reads what a channel writes."""

    def payloads(self, channel: Channel) -> list[Any]:
        """Of all messages, once the other end has finished."""
        while channel.busy:
            channel.flush()
        channel.finish()
        assert self.reception.wait_for_last(60)
        return [arrival.payload() for arrival in self.arrivals]


def outgoing(payload: Any, size_bytes: float = 0.0) -> Outgoing:
    return Outgoing(Message(0, "x", pack(payload), size_bytes), 0.0)


def uptime(*times: float) -> Uptime:
    faults = [(Restart if place % 2 else Crash)(1, at_s) for place, at_s in enumerate(times)]
    return Uptime(1, faults, int)


def send(channel: Channel, message: Outgoing, *shares: float, at_s: float = 0.0) -> None:
    channel.begin(message)
    for share in shares:
        channel.advance(share, at_s)
    channel.end(Tail(False, 0.0), at_s, lambda at_s: None)


@pytest.fixture
def readers() -> Any:
    made = [Reader(), Reader()]
    yield made
    for reader in made:
        reader.close()


def test_a_reader_that_is_slow_gets_all(readers: list[Reader]) -> None:
    """More than the sockets hold waits, and messages that begin meanwhile lose nothing of it."""
    reader = readers[0]
    channel = Channel(uptime(), lambda: 0.0)
    channel.add(0, reader.connect())
    reader.may_go_on.clear()
    whole = np.arange(4_000_000.0)
    waited = False
    for number in range(5):
        send(channel, outgoing((number, whole)), 0.3, 0.6)
        waited |= channel.busy
        channel.flush()
    assert waited
    reader.may_go_on.set()
    found = reader.payloads(channel)
    assert [number for number, _ in found] == list(range(5))
    assert all(np.array_equal(array, whole) for _, array in found)
    assert channel.handed == {0: 5}


@given(
    sizes=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 300_000)), max_size=5),
    shares=st.lists(st.floats(0, 1), max_size=4),
)
def test_any_payload_in_any_parts(sizes: list[tuple[int, int]], shares: list[float]) -> None:
    reader = Reader()
    channel = Channel(uptime(), lambda: 0.0)
    channel.add(0, reader.connect())
    for length, size_bytes in sizes:
        send(channel, outgoing(np.arange(length), size_bytes), *sorted(shares))
    found = reader.payloads(channel)
    reader.reception.close()
    assert [array.tolist() for array in found] == [list(range(length)) for length, _ in sizes]
    sent = [arrival.head.data_bytes for arrival in reader.arrivals]
    assert all(data >= size for data, (_, size) in zip(sent, sizes, strict=True))


def test_a_message_that_is_dropped_halfway_is_none(readers: list[Reader]) -> None:
    channel = Channel(uptime(), lambda: 0.0)
    channel.add(0, readers[0].connect())
    channel.begin(outgoing("lost", 1_000.0))
    channel.advance(0.5, 0.0)
    channel.drop()
    send(channel, outgoing("kept"))
    assert readers[0].payloads(channel) == ["kept"]


def test_a_message_that_meets_a_restart_goes_to_the_new_process_whole(
    readers: list[Reader],
) -> None:
    channel = Channel(uptime(1.0, 2.0), lambda: 0.0)
    for restarts, reader in enumerate(readers):
        channel.add(restarts, reader.connect())
    send(channel, outgoing("before"), at_s=0.5)
    channel.begin(outgoing("across", 1_000.0))
    for share, at_s in ((0.3, 0.9), (0.5, 1.5), (0.7, 2.5)):
        channel.advance(share, at_s)
    channel.end(Tail(False, 0.0), 3.0, lambda at_s: None)
    send(channel, outgoing("after"), at_s=4.0)
    assert readers[1].payloads(channel) == ["across", "after"]
    assert [arrival.payload() for arrival in readers[0].arrivals] == ["before"]


def test_what_is_sent_to_a_node_that_is_down_goes_nowhere(readers: list[Reader]) -> None:
    channel = Channel(uptime(1.0), lambda: 0.0)
    channel.add(0, readers[0].connect())
    send(channel, outgoing("lost"), at_s=1.5)
    assert channel.handed == {}
    assert readers[0].payloads(channel) == []


def test_a_reader_that_is_gone_loses_what_it_is_sent(readers: list[Reader]) -> None:
    channel = Channel(uptime(), lambda: 0.0)
    channel.add(0, readers[0].connect())
    readers[0].reception.close()
    for _ in range(50):
        send(channel, outgoing(np.zeros(100_000)), 0.5)
    while channel.busy:
        channel.flush()
    assert channel.connections == {}


@pytest.mark.parametrize(
    ("at_s", "process"), [(0.0, 0), (0.99, 0), (1.0, None), (1.9, None), (2.0, 1), (9.0, None)]
)
def test_uptime(at_s: float, process: int | None) -> None:
    found = uptime(1.0, 2.0, 3.0)
    assert found.process(at_s) == process
    assert found.processes == 2
    assert [found.lasts(restarts) for restarts in range(2)] == [(0.0, 1.0), (2.0, 3.0)]

"""Bytes reach a process whole and in order, however slowly it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.measured.receptions import Listening
from workbench.runtime import Crash, Fault, Message, Restart
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


def channel_to(*readers: Reader, faults: Sequence[Fault] = ()) -> Channel:
    channel = Channel(Uptime(1, faults, int), lambda: 0.0)
    for restarts, reader in enumerate(readers):
        channel.add(restarts, reader.connect())
    return channel


def send(channel: Channel, message: Outgoing, *shares: float, at_s: float = 0.0) -> None:
    channel.begin(message)
    for share in shares:
        channel.advance(share, at_s)
    channel.end(Tail(False, 0.0), at_s, lambda at_s: None)


@pytest.fixture
def reader() -> Any:
    made = Reader()
    yield made
    made.close()


def test_a_reader_that_is_slow_gets_all(reader: Reader) -> None:
    """More than the sockets hold waits, and messages that begin meanwhile lose nothing of it."""
    channel = channel_to(reader)
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
    channel = channel_to(reader)
    for length, size_bytes in sizes:
        send(channel, outgoing(np.arange(length), size_bytes), *sorted(shares))
    found = reader.payloads(channel)
    reader.reception.close()
    assert [array.tolist() for array in found] == [list(range(length)) for length, _ in sizes]
    sent = [arrival.head.data_bytes for arrival in reader.arrivals]
    assert all(data >= size for data, (_, size) in zip(sent, sizes, strict=True))


def test_a_message_that_meets_a_restart_goes_to_the_new_process_whole(reader: Reader) -> None:
    later = Reader()
    channel = channel_to(reader, later, faults=[Crash(1, 1.0), Restart(1, 2.0)])
    send(channel, outgoing("before"), at_s=0.5)
    channel.begin(outgoing("across", 1_000.0))
    for share, at_s in ((0.3, 0.9), (0.5, 1.5), (0.7, 2.5)):
        channel.advance(share, at_s)
    channel.end(Tail(False, 0.0), 3.0, lambda at_s: None)
    assert later.payloads(channel) == ["across"]
    assert [arrival.payload() for arrival in reader.arrivals] == ["before"]
    later.close()


def test_a_message_that_is_dropped_halfway_is_none(reader: Reader) -> None:
    channel = channel_to(reader)
    channel.begin(outgoing("lost", 1_000.0))
    channel.advance(0.5, 0.0)
    channel.drop()
    send(channel, outgoing("kept"))
    assert reader.payloads(channel) == ["kept"]


@pytest.mark.parametrize(
    ("at_s", "process"), [(0.0, 0), (0.99, 0), (1.0, None), (1.9, None), (2.0, 1), (9.0, None)]
)
def test_which_process_is_up(at_s: float, process: int | None) -> None:
    found = Uptime(1, [Crash(1, 1.0), Restart(1, 2.0), Crash(1, 3.0)], int)
    assert found.process(at_s) == process
    assert found.processes == 2
    assert [found.lasts(restarts) for restarts in range(2)] == [(0.0, 1.0), (2.0, 3.0)]


def test_a_reader_that_is_gone_loses_what_it_is_sent(reader: Reader) -> None:
    channel = channel_to(reader)
    reader.reception.close()
    for _ in range(50):
        send(channel, outgoing(np.zeros(100_000)), 0.5)
    while channel.busy:
        channel.flush()
    assert channel.connections == {}

"""A message on a connection: a head, its bytes in frames as they are released, and how it ended.

The bytes are its pickled pieces one after the other, then zeros up to its size. An empty frame
stands for the rest of a message that was given up halfway.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from math import ceil
from multiprocessing.connection import Connection
from typing import NamedTuple

from workbench.runtime.measured.packing import Packed, unpack
from workbench.runtime.messages import Message

Frame = bytes | memoryview
GIVEN_UP = b""
_FRAME_BYTES = 1 << 16  # one is read while the next is written
_ZEROS = memoryview(bytes(_FRAME_BYTES))


class Head(NamedTuple):
    """A message without its payload, when its transfer began, its pieces' sizes and all bytes."""

    message: Message
    start_s: float
    piece_bytes: tuple[int, ...]
    data_bytes: int


class End(NamedTuple):
    """Whether the link lost a message, and when the message arrives at the earliest."""

    lost: bool
    arrives_s: float


class Arrival(NamedTuple):
    """A message that has come whole over a link."""

    message: Message
    start_s: float
    end: End


class Outgoing:
    """Frames of a message on its way out; its payload is `Packed`."""

    def __init__(self, message: Message, start_s: float) -> None:
        packed: Packed = message.payload
        self._pieces = [piece.cast("B") for piece in packed.pieces]
        lengths = tuple(piece.nbytes for piece in self._pieces)
        self._ends = list(accumulate(lengths))
        self.data_bytes = max(self._ends[-1], ceil(message.size_bytes))
        head = Head(replace(message, payload=None), start_s, lengths, self.data_bytes)
        self.head = pickle.dumps(head)

    def data(self, low: int, high: int) -> Iterator[Frame]:
        """Bytes `low` to `high`, in frames that hold a part of one piece or zeros."""
        while low < high:
            place, count = bisect_right(self._ends, low), min(high - low, _FRAME_BYTES)
            frame = _ZEROS[:count]
            if place < len(self._pieces):
                piece = self._pieces[place]
                start = self._ends[place] - piece.nbytes
                frame = piece[low - start :][:count]
            yield frame
            low += frame.nbytes


def receive(connection: Connection) -> Arrival | None:
    """Receive a message; None for one that was given up halfway."""
    head: Head = connection.recv()
    pieces = [bytearray(length) for length in head.piece_bytes]
    if not _fill(connection, pieces, head.data_bytes):
        return None
    end: End = connection.recv()
    payload = None if end.lost else unpack(pieces)
    return Arrival(replace(head.message, payload=payload), head.start_s, end)


def _fill(connection: Connection, pieces: list[bytearray], data_bytes: int) -> bool:
    """Fill the pieces with the data of a message; whether they are whole."""
    for piece in pieces:
        filled = 0
        while filled < len(piece):
            count = connection.recv_bytes_into(piece, filled)
            if not count:
                return False
            filled += count
    zeros = data_bytes - sum(map(len, pieces))
    while zeros:
        count = len(connection.recv_bytes())
        if not count:
            return False
        zeros -= count
    return True

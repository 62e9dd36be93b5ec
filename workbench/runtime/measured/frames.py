"""What travels over a connection: each message as frames, so that one can be dropped halfway.

A frame is its kind, its length and its content. A message begins with its head, goes on with data
(its pieces one after the other, then zeros up to its size) and ends with a tail.
"""

from __future__ import annotations

import pickle
import struct
from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from workbench.runtime.measured.packing import Packed
from workbench.runtime.messages import Message

FRAME = struct.Struct("!BI")
TAIL = struct.Struct("!?d")
_ZEROS = memoryview(bytes(1 << 18))


class Kind(IntEnum):
    """Of a frame."""

    HEAD = 1
    DATA = 2
    TAIL = 3
    DROPPED = 4
    LAST = 5
    CALL = 6  # to and from an arbiter


class Head(NamedTuple):
    """How a message begins: what it is, when its transfer began, and how long its data are."""

    topic: str
    size_bytes: float
    tensor_bytes: tuple[float, ...]
    control: bool
    start_s: float
    piece_bytes: tuple[int, ...]
    data_bytes: int


class Tail(NamedTuple):
    """How it ends: whether the link lost it, and when it is there at the earliest."""

    lost: bool
    arrives_s: float


class Outgoing:
    """The bytes of a message on its way out; its payload is `Packed`."""

    def __init__(self, message: Message, start_s: float) -> None:
        packed: Packed = message.payload
        self._pieces = packed.pieces
        lengths = tuple(piece.nbytes for piece in packed.pieces)
        self._ends = list(accumulate(lengths))
        self.data_bytes = max(self._ends[-1], ceil(message.size_bytes))
        self.head = Head(
            message.topic,
            message.size_bytes,
            message.tensor_bytes,
            message.control,
            start_s,
            lengths,
            self.data_bytes,
        )

    def begin(self) -> list[memoryview]:
        """The head as a frame."""
        return frame(Kind.HEAD, pickle.dumps(tuple(self.head), protocol=5))

    def part(self, low: int, high: int) -> list[memoryview]:
        """Bytes `low` to `high` of the data as a frame."""
        return [memoryview(FRAME.pack(Kind.DATA, high - low)), *self._slices(low, high)]

    def _slices(self, low: int, high: int) -> Iterator[memoryview]:
        place = bisect_right(self._ends, low)
        while low < high and place < len(self._pieces):
            piece, start = self._pieces[place], self._ends[place] - self._pieces[place].nbytes
            end = min(high, self._ends[place])
            yield piece.cast("B")[low - start : end - start]
            low, place = end, place + 1
        while low < high:
            count = min(high - low, len(_ZEROS))
            yield _ZEROS[:count]
            low += count


def frame(kind: Kind, content: bytes = b"") -> list[memoryview]:
    """A frame of this content."""
    return [memoryview(FRAME.pack(kind, len(content)) + content)]

"""Time as the columns that matter for packing.

Only the largest sets of buffers alive together constrain offsets. One forms where a buffer begins
and the next event is an end; each is a column here, and a buffer lives from one column to another.
Lifetimes that differ in nothing that matters become equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workbench.memory.packing.buffers import Buffers, Ints


@dataclass(frozen=True, eq=False)
class Columns:
    """Buffers over columns, with an empty one before the first and behind the last."""

    first: Ints  # of a buffer's columns
    last: Ints  # included
    size: Ints  # in bytes
    load: Ints  # bytes alive in each column
    twin: Ints  # an earlier buffer of the same columns and size; else the number of buffers
    signature: Ints  # a random number, the same for twins; their sums tell sets of buffers apart

    @property
    def buffers(self) -> int:
        """How many."""
        return len(self.size)

    @cached_property
    def bound(self) -> int:
        """Most bytes alive at once."""
        return int(self.load.max())


def columns_of(buffers: Buffers) -> Columns:
    """Columns of buffers that all take memory."""
    count = len(buffers)
    starts = np.repeat([False, True], count)
    order = np.lexsort((starts, np.concatenate([buffers.upper, buffers.lower])))
    starts = starts[order]
    complete = np.append(0, starts[:-1] & ~starts[1:]).cumsum()
    column = np.empty(2 * count, np.int64)
    column[order] = complete
    first, last, size = column[count:] + 1, column[:count], buffers.size
    change = np.zeros(int(last.max()) + 2, np.int64)
    np.add.at(change, first, size)
    np.subtract.at(change, last + 1, size)
    _, kind = np.unique(np.stack([first, last, size]), axis=1, return_inverse=True)
    kind = kind.ravel()
    signature = np.random.default_rng(0).integers(2**63, size=count)[kind]
    return Columns(first, last, size, change.cumsum(), _twins(kind), signature)


def _twins(kind: Ints) -> Ints:
    twin = np.full(len(kind), len(kind), np.int64)
    order = np.argsort(kind, kind="stable")
    same = kind[order[1:]] == kind[order[:-1]]
    twin[order[1:][same]] = order[:-1][same]
    return twin

"""What a packing is judged by: its peak, the least peak possible, and that no buffers overlap."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
from numpy.typing import ArrayLike

from workbench.memory.packing.buffers import Buffers, Ints, Table, read
from workbench.utils.checks import UserError


def bound(buffers: Table | Buffers) -> int:
    """Most bytes alive at once; no packing has a lower peak."""
    given = read(buffers)
    alive = given[given.takes_memory]
    step = np.concatenate([alive.upper, alive.lower])  # at the same step, ends come first
    change = np.concatenate([-alive.size, alive.size])
    return int(change[np.argsort(step, kind="stable")].cumsum().max(initial=0))


def peak(buffers: Table | Buffers, offsets: ArrayLike) -> int:
    """Bytes of memory that a packing takes: its highest address in use."""
    given = read(buffers)
    used = given.takes_memory
    return int((_offsets(given, offsets) + given.size)[used].max(initial=0))


def check(buffers: Table | Buffers, offsets: ArrayLike) -> None:
    """Raise ValueError if an offset is negative or two buffers share an address while both live.

    A sweep over time keeps the live buffers by address. As long as they do not overlap, a new one
    can only run into its two neighbours.
    """
    given = read(buffers)
    offset = _offsets(given, offsets)
    if (offset < 0).any():
        row = int(np.flatnonzero(offset < 0)[0])
        raise UserError(f"the buffer in row {row} has the offset {offset[row]}; it is at least 0")
    rows = np.flatnonzero(given.takes_memory)
    events = sorted(
        [(int(given.upper[row]), 0, int(row)) for row in rows]
        + [(int(given.lower[row]), 1, int(row)) for row in rows]
    )
    first, last = offset.tolist(), (offset + given.size).tolist()
    alive: list[tuple[int, int]] = []
    for step, starts, row in events:
        entry = (first[row], row)
        place = bisect_left(alive, entry)
        if not starts:
            del alive[place]
            continue
        for _, other in alive[max(place - 1, 0) : place + 1]:
            if first[row] < last[other] and first[other] < last[row]:
                raise UserError(
                    f"at step {step} the buffers in rows {other} and {row} overlap: bytes "
                    f"{first[other]} to {last[other]} and {first[row]} to {last[row]}"
                )
        insort(alive, entry)


def _offsets(buffers: Buffers, offsets: ArrayLike) -> Ints:
    given = np.asarray(offsets)
    if given.shape != (len(buffers),) or (given.dtype.kind not in "iu" and given.size):
        raise UserError(
            f"the offsets are {given.dtype} of shape {given.shape}; give a whole number for each "
            f"of {len(buffers)} buffers"
        )
    return given.astype(np.int64)

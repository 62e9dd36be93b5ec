"""Static memory planning: an offset in one memory for every buffer of a schedule.

>>> import polars as pl
>>> from workbench.memory import packing
>>> buffers = pl.DataFrame({"lower": [0, 2, 1], "upper": [2, 4, 3], "size": [64, 64, 32]})
>>> offsets = packing.pack(buffers)
>>> packing.check(buffers, offsets)
>>> packing.peak(buffers, offsets), packing.bound(buffers)
(96, 96)

Buffers whose lifetimes ``[lower, upper)`` meet must not share an address; the peak, the highest
``offset + size``, is to be small. Also known as dynamic storage allocation, which is NP-hard.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from workbench.memory.packing.buffers import Buffers, Ints, Table, read
from workbench.memory.packing.certificates import bound, check, peak
from workbench.memory.packing.greedy import best_fit, greedy_by_size, none
from workbench.memory.packing.workbench import workbench
from workbench.utils.checks import UserError, check_number, check_whole, choose

__all__ = ["PACKERS", "ROUNDS", "Buffers", "bound", "check", "pack", "peak", "read"]

ROUNDS = 4
"""Of a search that is given neither rounds nor seconds."""
PACKERS: Mapping[str, Callable[..., Ints]] = {
    "workbench": workbench,
    "greedy_by_size": greedy_by_size,
    "best_fit": best_fit,
    "none": none,
}
"""Offsets of buffers that all take memory; the first searches, by rounds and to a deadline."""


def pack(
    buffers: Table | Buffers,
    planner: str = "workbench",
    *,
    rounds: int | None = None,
    time_limit_s: float | None = None,
    alignment: int = 1,
) -> Ints:
    """Choose an offset for each buffer.

    Parameters
    ----------
    buffers
        A frame, or what makes one, with whole numbers in the columns `lower` (first step alive),
        `upper` (first step no longer alive) and `size` (bytes).
    planner
        Name in `PACKERS`.
    rounds, time_limit_s
        When the planner ``workbench`` ends: after rounds, which find the same on every machine, or
        seconds; of both, what ends first. After `ROUNDS` by default, and at the bound.
    alignment
        Every offset is a multiple of this many bytes.

    Returns
    -------
        Offsets in bytes, in the order of the buffers. A buffer without bytes or lifetime is at 0.
    """
    packer = choose("planner", planner, PACKERS)
    deadline_s, most_rounds = np.inf, np.inf if rounds is None else check_whole("rounds", rounds, 0)
    if time_limit_s is not None:
        if not check_number("time_limit_s", time_limit_s) > 0:
            raise UserError(f"time_limit_s is {time_limit_s}; give seconds above 0")
        deadline_s = time.perf_counter() + time_limit_s
    elif rounds is None:
        most_rounds = ROUNDS
    unit = check_whole("alignment", alignment, least=1)
    given = read(buffers)
    offsets = np.zeros(len(given), np.int64)
    used = given.takes_memory
    if used.any():
        chosen = given[used]
        units = Buffers(chosen.lower, chosen.upper, -(-chosen.size // unit))
        effort = (most_rounds, deadline_s) if packer is workbench else ()
        offsets[used] = packer(units, *effort) * unit
    return offsets

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

from collections.abc import Callable, Mapping

import numpy as np

from workbench.memory.packing.buffers import Buffers, Effort, Ints, Table, read
from workbench.memory.packing.certificates import bound, check, peak
from workbench.memory.packing.greedy import best_fit, greedy_by_size, none
from workbench.memory.packing.workbench import workbench
from workbench.utils.checks import check_whole, choose

__all__ = ["PACKERS", "Buffers", "Effort", "Packer", "bound", "check", "pack", "peak", "read"]

Packer = Callable[[Buffers, Effort], Ints]
"""Offsets of buffers that all take memory."""

PACKERS: Mapping[str, Packer] = {
    "workbench": workbench,
    "greedy_by_size": greedy_by_size,
    "best_fit": best_fit,
    "none": none,
}


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
        Of a planner that searches: see `Effort`. It ends earlier if it meets the bound.
    alignment
        Every offset is a multiple of this many bytes.

    Returns
    -------
        Offsets in bytes, in the order of the buffers. A buffer without bytes or lifetime is at 0.
    """
    packer = choose("planner", planner, PACKERS)
    effort = Effort(rounds, time_limit_s)
    unit = check_whole("alignment", alignment, least=1)
    given = read(buffers)
    offsets = np.zeros(len(given), np.int64)
    used = given.takes_memory
    if used.any():
        chosen = given[used]
        units = Buffers(chosen.lower, chosen.upper, -(-chosen.size // unit))
        offsets[used] = packer(units, effort) * unit
    return offsets

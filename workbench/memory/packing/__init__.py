"""Static memory planning: an offset in one memory for every buffer of a schedule.

>>> import polars as pl
>>> from workbench.memory import packing
>>> buffers = pl.DataFrame({"lower": [0, 2, 1], "upper": [2, 4, 3], "size": [64, 64, 32]})
>>> offsets = packing.pack(buffers)
>>> packing.check(buffers, offsets)
>>> packing.peak(buffers, offsets), packing.bound(buffers)
(96, 96)

Buffers whose lifespans ``[lower, upper)`` meet must not share an address; the peak, the highest
``offset + size``, is to be small. Also known as dynamic storage allocation, which is NP-hard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from workbench.memory.packing.buffers import Buffers, Ints, Table, bound, check, peak, read
from workbench.memory.packing.greedy import best_fit, greedy_by_size, none
from workbench.memory.packing.search import workbench
from workbench.utils.checks import check_whole, choose

__all__ = ["PACKERS", "ROUNDS", "Buffers", "bound", "check", "pack", "peak", "read"]

ROUNDS = 4
"""Rounds of a search by default."""
PACKERS: Mapping[str, Callable[..., Ints]] = {
    "workbench": workbench,
    "greedy_by_size": greedy_by_size,
    "best_fit": best_fit,
    "none": none,
}
"""Offsets of buffers that all take memory; the first searches, by rounds."""


def pack(
    buffers: Table, planner: str = "workbench", *, rounds: int = ROUNDS, alignment: int = 1
) -> Ints:
    """Choose an offset for each buffer.

    Parameters
    ----------
    buffers
        A frame with whole numbers in the columns `lower` (first step alive), `upper` (first step no
        longer alive) and `size` (bytes).
    planner
        Name in `PACKERS`.
    rounds
        After how many the planner ``workbench`` ends, if the bound is not met before; the packing
        is the same on every machine.
    alignment
        Every offset is a multiple of this many bytes.

    Returns
    -------
        Offsets in bytes, in the order of the buffers. A buffer without bytes or lifespan is at 0.
    """
    packer = choose("planner", planner, PACKERS)
    if packer is workbench:
        packer = partial(workbench, rounds=check_whole("rounds", rounds, 0))
    unit = check_whole("alignment", alignment, least=1)
    checked = read(buffers)
    offsets = np.zeros(len(checked.size), np.int64)
    taking = checked.takes_memory
    if taking.any():
        chosen = checked.select(taking)
        units = Buffers(chosen.lower, chosen.upper, -(-chosen.size // unit))
        offsets[taking] = packer(units) * unit
    return offsets

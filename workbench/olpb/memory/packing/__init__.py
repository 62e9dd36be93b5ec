"""Static memory planning: an offset in one memory for every buffer of a schedule.

>>> import polars as pl
>>> from workbench.olpb.memory import packing
>>> buffers = pl.DataFrame({"lower": [0, 2, 1], "upper": [2, 4, 3], "size": [64, 64, 32]})
>>> offsets = packing.pack(buffers)
>>> packing.check(buffers, offsets)
>>> packing.peak(buffers, offsets), packing.bound(buffers)
(96, 96)

Buffers whose lifetimes ``[lower, upper)`` meet must not share an address; the peak, the highest
``offset + size``, is to be small. Also known as dynamic storage allocation, which is NP-hard.
"""

from workbench.olpb.memory.packing.algorithms import PACKERS, Packer
from workbench.olpb.memory.packing.buffers import Buffers, Effort, read
from workbench.olpb.memory.packing.certificates import bound, check, peak
from workbench.olpb.memory.packing.pack import pack

__all__ = ["PACKERS", "Buffers", "Effort", "Packer", "bound", "check", "pack", "peak", "read"]

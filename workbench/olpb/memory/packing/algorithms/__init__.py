"""Packers by name. A packer gets buffers that all take memory, and returns their offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workbench.olpb.memory.packing.algorithms.best_fit import best_fit
from workbench.olpb.memory.packing.algorithms.greedy_by_size import greedy_by_size
from workbench.olpb.memory.packing.algorithms.none import none
from workbench.olpb.memory.packing.algorithms.workbench import workbench
from workbench.olpb.memory.packing.buffers import Buffers, Effort, Ints

Packer = Callable[[Buffers, Effort], Ints]

PACKERS: Mapping[str, Packer] = {
    "workbench": workbench,
    "greedy_by_size": greedy_by_size,
    "best_fit": best_fit,
    "none": none,
}

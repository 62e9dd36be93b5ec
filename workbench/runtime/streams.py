"""Random numbers of a run: a stream of its own for each purpose, node and link."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


class Purpose(IntEnum):
    """First part of a stream's key; `workbench.training.repeatable` and data sets have 0 to 15."""

    PROGRAM = 16
    LOSSES = 17
    CRASHES = 18
    SLOW_DOWNS = 19
    OUTAGES = 20


def stream(seed: int, purpose: Purpose, *which: int) -> np.random.Generator:
    """Return the generator of a purpose, and of a node, link or restart.

    The numbers are a spawn key: put into the seed itself, zeros would be lost, since NumPy fills a
    seed up with zeros, so that [7], [7, 0] and [7, 0, 0] are one.
    """
    import numpy as np

    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *which)))

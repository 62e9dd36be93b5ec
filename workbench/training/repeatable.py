"""Repeatable bits: seeds without global state, and a fixed number of threads.

Random numbers come from a generator made for one purpose, from the run's seed and a few numbers
(epoch, worker, step), so that drawing more for one purpose changes nothing for another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import torch

# First number of a purpose, so that two never share a stream; data sets have 0 and 1 (cluttered
# digits), 10 (`limit`) and 11 (`partition`), pairs 12 (`exchanges.noloco`), and
# `workbench.runtime.faults` those from 16 on.
FIRST_WEIGHTS, SHUFFLE, STEP, AGGREGATE, SELECT, LOAD, DRAW, DEAL = 2, 3, 4, 5, 6, 7, 8, 9


def derive(seed: int, *purpose: int) -> int:
    """Return a seed of 63 bits for one purpose of a run."""
    if seed < 0 or any(part < 0 for part in purpose):
        raise UserError(f"a seed and what it is for are at least 0, not {(seed, *purpose)}")
    state = np.random.SeedSequence(seed, spawn_key=purpose).generate_state(1, np.uint64)
    return int(state[0]) >> 1


def generator(seed: int, *purpose: int) -> torch.Generator:
    """Return a generator of PyTorch's on the CPU for one purpose of a run; see `derive`."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *purpose))


@contextmanager
def seeded(seed: int, *purpose: int) -> Iterator[None]:
    """Seed what draws from PyTorch's global CPU generator (dropout, layers being made).

    Afterwards the generator has its earlier state again.
    """
    import torch

    before = torch.get_rng_state()
    torch.default_generator.manual_seed(derive(seed, *purpose))
    try:
        yield
    finally:
        torch.set_rng_state(before)


@contextmanager
def fixed_threads(count: int = 1) -> Iterator[None]:
    """Let PyTorch compute with `count` threads, and afterwards with as many as before.

    Sums are split among threads, and another split rounds otherwise: weights are the same bit
    for bit only between runs with the same number. One is also the fastest for small models.
    """
    import torch

    if count < 1:
        raise UserError(f"PyTorch computes with at least one thread, not {count}")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

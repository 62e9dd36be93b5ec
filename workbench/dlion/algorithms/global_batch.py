"""Global batch size over a training (Hong & Chandra 2021, Sec. 3.2).

It grows in an arithmetic progression to 1 % of the training data (warm-up), then in a geometric one
to 10 % (speed-up). The learning rate stays.

Deviation: the constants and how long the phases last are not stated. Those here take a step every
three epochs, and double in the second phase, as Fig. 5 does. The last step of a phase ends at its
share of the data; the paper's first goes beyond it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.utils.checks import ABOVE_ZERO, NOT_NEGATIVE, at_least, between, check_fields


@dataclass(frozen=True)
class Growth:
    """Growth of the global batch size."""

    # Samples that a step of the warm-up adds, and what one of the speed-up multiplies by.
    warm_up_add: int = field(default=64, metadata=at_least(0))
    speed_up_factor: float = field(default=2.0, metadata=between(1, sys.float_info.max))
    # Epochs from one step to the next, and before the speed-up.
    every_epochs: float = field(default=3, metadata=ABOVE_ZERO)
    warm_up_epochs: float = field(default=3, metadata=NOT_NEGATIVE)
    # Shares of the training data, up to which each phase grows.
    warm_up_share: float = field(default=0.01, metadata=between(0, 1))
    speed_up_share: float = field(default=0.1, metadata=between(0, 1))

    def __post_init__(self) -> None:
        check_fields(self)


DOUBLING = Growth()
CONSTANT = Growth(warm_up_add=0, speed_up_factor=1.0)


class GlobalBatch(NamedTuple):
    """State of the controller: the size, epochs that are over, and samples of the present one."""

    size: int
    epoch: int = 0
    learnt: int = 0


def step(state: GlobalBatch, growth: Growth, data_samples: int) -> GlobalBatch:
    """Count an iteration of the present size; the size then grows if a step is due."""
    before = state.epoch * data_samples + state.learnt
    epoch, learnt = divmod(before + state.size, data_samples)
    every = max(1, round(min(growth.every_epochs * data_samples, sys.maxsize)))
    steps = (before + state.size) // every
    size = state.size
    if steps > before // every:
        size = _grown(size, growth, steps * every / data_samples, data_samples)
    return GlobalBatch(size, epoch, learnt)


def _grown(size: int, growth: Growth, epochs: float, data_samples: int) -> int:
    """Size after a step of growth that was due after some epochs."""
    warming_up = epochs <= growth.warm_up_epochs
    limit = int((growth.warm_up_share if warming_up else growth.speed_up_share) * data_samples)
    if warming_up:
        return max(size, min(size + growth.warm_up_add, limit))
    return max(size, int(min(size * growth.speed_up_factor, limit)))

"""Global batch size over a training (Hong & Chandra 2021, Sec. 3.2).

It grows in an arithmetic progression to 1 % of the training data (warm-up), then in a geometric one
to 10 % (speed-up). The learning rate stays.

Deviation: the constants and how long the phases last are not stated. Those here take a step every
three epochs, and double in the second phase, as Fig. 5 does. The last step of a phase ends at its
share of the data; the paper's first goes beyond it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import NamedTuple

from workbench.utils.checks import UserError, check_number, check_whole


@dataclass(frozen=True)
class Growth:
    """How the global batch size grows."""

    warm_up_add: int = 64  # samples that a step of the warm-up adds
    speed_up_factor: float = 2.0  # what a step of the speed-up multiplies by, at least 1
    every_epochs: float = 3  # from one step to the next; a fraction is of the training data
    warm_up_epochs: float = 3  # before the speed-up
    warm_up_share: float = 0.01  # of the training data, up to which each phase grows
    speed_up_share: float = 0.1

    def __post_init__(self) -> None:
        check_whole("warm_up_add", self.warm_up_add, 0)
        if not 0 < check_number("every_epochs", self.every_epochs) < math.inf:
            raise UserError(f"every_epochs is {self.every_epochs}; it must be finite and above 0")
        if not 0 <= check_number("warm_up_epochs", self.warm_up_epochs) < math.inf:
            raise UserError(
                f"warm_up_epochs is {self.warm_up_epochs}; it must be 0 or more, finite"
            )
        if not 1 <= check_number("speed_up_factor", self.speed_up_factor) < math.inf:
            raise UserError(
                f"speed_up_factor is {self.speed_up_factor}; it must be at least 1 and finite"
            )
        for name in ("warm_up_share", "speed_up_share"):
            if not 0 <= check_number(name, share := getattr(self, name)) <= 1:
                raise UserError(
                    f"{name} is {share}; it is a share of the training data, from 0 to 1"
                )


DOUBLING = Growth()
CONSTANT = Growth(warm_up_add=0, speed_up_factor=1.0)


class GlobalBatch(NamedTuple):
    """State of the controller: the size, epochs that are over, and samples of the present one."""

    size: int
    epoch: int = 0
    learnt: int = 0


def step(state: GlobalBatch, growth: Growth, data_samples: int) -> GlobalBatch:
    """Count an iteration of the present size, behind which the size grows if a step is due."""
    before = state.epoch * data_samples + state.learnt
    epoch, learnt = divmod(before + state.size, data_samples)
    every = max(1, round(min(growth.every_epochs * data_samples, sys.maxsize)))
    steps = (before + state.size) // every
    size = state.size
    if steps > before // every:
        size = _grown(size, growth, steps * every / data_samples, data_samples)
    return GlobalBatch(size, epoch, learnt)


def _grown(size: int, growth: Growth, epochs: float, data_samples: int) -> int:
    """The size behind a step that was due after some epochs."""
    warming_up = epochs <= growth.warm_up_epochs
    limit = int((growth.warm_up_share if warming_up else growth.speed_up_share) * data_samples)
    if warming_up:
        return max(size, min(size + growth.warm_up_add, limit))
    return max(size, int(min(size * growth.speed_up_factor, limit)))

"""Global batch size over a training (Hong & Chandra 2021, Sec. 3.2).

It grows in an arithmetic progression to 1 % of the training data (warm-up), then in a geometric one
to 10 % (speed-up). The learning rate stays.

Deviation: the constants and how long the phases last are not stated. Those here take a step every
three epochs, and double in the second phase, as Fig. 5 does. The last step of a phase ends at its
share of the data; the paper's first goes beyond it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from workbench.checks import check_number, check_whole
from workbench.errors import UserError


@dataclass(frozen=True)
class Growth:
    """How the global batch size grows.

    Attributes
    ----------
    warm_up_add
        Samples that a step of the warm-up adds.
    speed_up_factor
        What a step of the speed-up multiplies by, at least 1.
    every_epochs
        From one step to the next.
    warm_up_epochs
        Before the speed-up.
    warm_up_share, speed_up_share
        Of the training data, up to which each phase grows.
    """

    warm_up_add: int = 64
    speed_up_factor: float = 2.0
    every_epochs: int = 3
    warm_up_epochs: int = 3
    warm_up_share: float = 0.01
    speed_up_share: float = 0.1

    def __post_init__(self) -> None:
        check_whole("warm_up_add", self.warm_up_add, 0)
        check_whole("every_epochs", self.every_epochs, 1)
        check_whole("warm_up_epochs", self.warm_up_epochs, 0)
        if not 1 <= check_number("speed_up_factor", self.speed_up_factor) < math.inf:
            raise UserError(f"speed_up_factor is {self.speed_up_factor}; it must be at least 1")
        for name in ("warm_up_share", "speed_up_share"):
            if not 0 <= check_number(name, getattr(self, name)) <= 1:
                raise UserError(
                    f"{name} is {getattr(self, name)}; it is a share of the training data, from 0 "
                    "to 1"
                )


DOUBLING = Growth()
CONSTANT = Growth(warm_up_add=0, speed_up_factor=1.0)


class GlobalBatch(NamedTuple):
    """State of the controller: the size, epochs that are over, and samples of the present one."""

    size: int
    epoch: int = 0
    learnt: int = 0


def step(state: GlobalBatch, growth: Growth, data_samples: int) -> GlobalBatch:
    """Count an iteration of the present size; the size grows at the ends of some epochs."""
    learnt = state.learnt + state.size
    if learnt < data_samples:
        return state._replace(learnt=learnt)
    epoch = state.epoch + learnt // data_samples
    due = epoch // growth.every_epochs > state.epoch // growth.every_epochs
    size = _grown(state.size, growth, epoch, data_samples) if due else state.size
    return GlobalBatch(size, epoch, learnt % data_samples)


def _grown(size: int, growth: Growth, epoch: int, data_samples: int) -> int:
    warming_up = epoch <= growth.warm_up_epochs
    share = growth.warm_up_share if warming_up else growth.speed_up_share
    larger = size + growth.warm_up_add if warming_up else int(size * growth.speed_up_factor)
    return max(size, min(larger, int(share * data_samples)))

"""A machine that computes and is connected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.clusters.schedule import Schedule, capacity
from workbench.utils.checks import MOST_BYTES, UserError, check_range, check_whole, is_number

Given = float | Schedule | Sequence[tuple[float, float]]

RANGES = {
    "flops_per_s": (1e-9, 1e24),
    "memory_bytes": (1.0, float(MOST_BYTES)),
    "watts": (1e-9, 1e9),
    "price_per_hour": (0.0, 1e9),
}
"""Bounds of what a node may have: the least and the most."""

MOST_COUNT = 1e12
"""Cores or samples at most."""


@dataclass(frozen=True)
class Node:
    """A machine: how fast it computes and what its network interface carries.

    Parameters
    ----------
    name
        For traces and errors; unique in a cluster.
    cores
        How many computations run at a time.
    speed
        What a cost is divided by: 1 as planned, 0.5 half as fast. A number, pairs of
        (start_s, value), or a `Schedule`; kept as a `Schedule`.
    uplink_bps, downlink_bps
        Bits per second that all its transfers out, or in, share; None for no limit.
    flops_per_s
        What it sustains at speed 1 in training; None if costs are given in seconds.
    memory_bytes
        That a training may take; None if it does not matter.
    samples
        Training samples that it holds.
    watts, price_per_hour
        What it draws, and costs, while a training runs; None if it does not matter. A machine of
        your own may cost 0.
    """

    name: str
    cores: int = 1
    speed: Given = 1.0
    uplink_bps: Given | None = None
    downlink_bps: Given | None = None
    flops_per_s: float | None = None
    memory_bytes: float | None = None
    samples: int = 0
    watts: float | None = None
    price_per_hour: float | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise UserError(f"a node needs a name, such as 'worker0', not {self.name!r}")
        if not self.name.isprintable():
            raise UserError(f"a node's name is {self.name!r}; give a text of a single line")
        for name, fewest in (("cores", 1), ("samples", 0)):
            count = check_whole(f"{name} of {self.name}", getattr(self, name), fewest)
            check_range(f"{name} of {self.name}", count, fewest, MOST_COUNT)
            object.__setattr__(self, name, count)
        speed = capacity(f"speed of {self.name}", self.speed)
        object.__setattr__(self, "speed", speed)
        for name in ("uplink_bps", "downlink_bps"):
            value = getattr(self, name)
            unlimited = value is None or (is_number(value) and value == math.inf)
            limit = None if unlimited else capacity(f"{name} of {self.name}", value)
            object.__setattr__(self, name, limit)
        for name, (low, high) in RANGES.items():
            if (value := getattr(self, name)) is not None:
                check_range(f"{name} of {self.name}", value, low, high, ", or left out")

    @property
    def speed_over_time(self) -> Schedule:
        """The speed as a schedule."""
        return Schedule.of(self.speed)

    @property
    def uplink(self) -> Schedule | None:
        """Capacity of the interface out, in bits per second; None for no limit."""
        return None if self.uplink_bps is None else Schedule.of(self.uplink_bps)

    @property
    def downlink(self) -> Schedule | None:
        """Capacity of the interface in, in bits per second; None for no limit."""
        return None if self.downlink_bps is None else Schedule.of(self.downlink_bps)

    def __str__(self) -> str:
        parts = [self.name, f"speed {self.speed}"]
        if self.cores > 1:
            parts.insert(1, f"{self.cores} cores")
        parts += [f"up {self.uplink.describe('Mbit/s', 1e-6)}"] if self.uplink else []
        parts += [f"down {self.downlink.describe('Mbit/s', 1e-6)}"] if self.downlink else []
        return ", ".join(parts)

"""A machine that computes and is connected."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from workbench.clusters.schedule import MOST_S, OverTime, Schedule, capacity
from workbench.utils.checks import (
    MOST_BYTES,
    UserError,
    at_least,
    between,
    check_fields,
    is_number,
    optional,
)

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
    bytes_per_s, overhead_s
        What its memory sustains at speed 1, and what each pass over a layer costs beside its FLOPs
        and bytes; by default only FLOPs take time.
    memory_bytes
        That a training may take; None if it does not matter.
    samples
        Training samples that it holds.
    watts, price_per_hour
        What it draws, and costs, while a training runs; None if it does not matter. A machine of
        your own may cost 0.
    """

    name: str
    cores: int = field(default=1, metadata=at_least(1, MOST_COUNT))
    speed: OverTime = 1.0
    uplink_bps: OverTime | None = None
    downlink_bps: OverTime | None = None
    flops_per_s: float | None = field(default=None, metadata=optional(between(1e-9, 1e24)))
    bytes_per_s: float | None = field(default=None, metadata=optional(between(1e-9, 1e24)))
    overhead_s: float = field(default=0.0, metadata=between(0, MOST_S))
    memory_bytes: float | None = field(default=None, metadata=optional(between(1, MOST_BYTES)))
    samples: int = field(default=0, metadata=at_least(0, MOST_COUNT))
    watts: float | None = field(default=None, metadata=optional(between(1e-9, 1e9)))
    price_per_hour: float | None = field(default=None, metadata=optional(between(0, 1e9)))

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name and self.name.isprintable()):
            raise UserError(f"a node's name is {self.name!r}; give a text of a single line")
        check_fields(self, f" of {self.name}")
        for name in ("speed", "uplink_bps", "downlink_bps"):
            value = getattr(self, name)
            unlimited = name != "speed" and (
                value is None or (is_number(value) and value == math.inf)
            )
            schedule = None if unlimited else capacity(f"{name} of {self.name}", value)
            object.__setattr__(self, name, schedule)

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

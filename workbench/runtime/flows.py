"""Transfers over limited network interfaces as fluid flows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import simpy

from workbench.clusters import Schedule
from workbench.runtime.kernel import refuse_endless

SCALE = 1 << 64
"""Bits are counted in whole parts of 2^-64, so that sums are exact whatever their order."""


def parts(bits: float) -> int:
    """Bits in whole parts."""
    return int(math.ldexp(bits, 64))


class Interface:
    """One direction of a node's network interface, and the flows through it.

    With two flows or more it is `shared`, and limits them together; or `roomy`, and limits none as
    long as none takes more than an equal part of it.
    """

    __slots__ = (
        "bps", "capacity", "change", "constant", "flows", "full", "roomy", "share", "shared",
    )  # fmt: skip

    def __init__(self, capacity: Schedule) -> None:
        self.capacity, self.constant = capacity, capacity.constant
        self.bps = capacity.at(0.0)
        self.flows: dict[Flow, None] = {}
        self.shared = self.roomy = False
        self.full = False  # a flow takes more than an equal part
        self.share: Any = None  # a `FairShare` or `CoupledShare`, while it is shared
        self.change: simpy.Event | None = None  # of the capacity


class Flow:
    """A transfer's bytes on their way; `number` counts flows in the order in which they began."""

    __slots__ = (
        "bps", "cap", "change", "done", "end", "end_s", "group", "interfaces", "left", "limit_bps",
        "number", "place", "rate_bps", "share", "since_s", "timer",
    )  # fmt: skip

    def __init__(
        self,
        cap: Schedule | float,
        interfaces: tuple[Interface, ...],
        bits: float,
        done: Callable[[], None],
    ) -> None:
        self.cap, self.interfaces, self.done = cap, interfaces, done
        self.number = 0
        self.bps = math.inf  # what the link carries now, and the interfaces that are its alone
        self.limit_bps = math.inf  # beyond that, an interface has no room any more
        self.change: simpy.Event | None = None
        self.left = parts(bits)  # while it has no share, at `since_s`
        self.since_s = self.rate_bps = 0.0
        self.end_s = math.inf
        self.timer: simpy.Event | None = None
        self.share: Any = None
        self.group: Any = None  # of a `FairShare`, which alone knows it
        self.end = 0
        self.place = 0  # in a `CoupledShare`

    def run_at(self, rate_bps: float, now_s: float) -> bool:
        """Go on at a rate of its own; whether that changes it."""
        if rate_bps == self.rate_bps:
            return False
        if self.rate_bps and now_s > self.since_s:
            self.left = max(0, self.left - parts(self.rate_bps * (now_s - self.since_s)))
        self.rate_bps, self.since_s = rate_bps, now_s
        self.end_s = math.inf
        if rate_bps:
            self.end_s = now_s + self.left / SCALE / rate_bps
            if not self.end_s < math.inf:
                refuse_endless("a transfer over a limited interface")
        return True

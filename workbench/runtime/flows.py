"""What transfers over limited network interfaces are made of: interfaces, flows, and shares."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import simpy

from workbench.clusters import Schedule
from workbench.runtime.arguments import refuse_endless

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
        "bps",
        "capacity",
        "change",
        "constant",
        "flows",
        "full",
        "roomy",
        "share",
        "shared",
    )

    def __init__(self, capacity: Schedule) -> None:
        self.capacity, self.constant = capacity, capacity.constant
        self.bps = capacity.at(0.0)
        self.flows: dict[Flow, None] = {}
        self.shared = self.roomy = False
        self.full = False  # a flow takes more than an equal part
        self.share: Share | None = None  # while it is shared
        self.change: simpy.Event | None = None  # of the capacity


class Flow:
    """A transfer's bytes on their way; `number` counts flows in the order in which they began."""

    __slots__ = (
        "bps",
        "cap",
        "change",
        "done",
        "end",
        "end_s",
        "group",
        "interfaces",
        "left",
        "limit_bps",
        "number",
        "place",
        "rate_bps",
        "share",
        "since_s",
        "timer",
    )

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
        self.share: Share | None = None
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


class Share(Protocol):
    """Flows whose rates depend on each other, through interfaces that they share."""

    timer: simpy.Event | None  # of its next end
    due_s: float  # when that is

    def interfaces(self) -> list[Interface]:
        """Return the shared interfaces."""

    def join(self, flow: Flow, now_s: float) -> None:
        """Let a flow share from now on, once settled."""

    def update(self, flow: Flow, now_s: float) -> None:
        """Note that a flow's cap, its limit, or the interfaces that it shares may have changed."""

    def leave(self, flow: Flow, now_s: float) -> None:
        """Take a flow out, which goes on as it says itself."""

    def settle(self, now_s: float) -> float:
        """Set the rates after a change; return when the next flow ends, if nothing changes."""

    def over_limits(self) -> list[tuple[Flow, float]]:
        """Flows above their limit since the last settlement, and their rates."""

    def pop_ended(self, by_s: float) -> list[Flow]:
        """Take out the flows that end by a time, in the order in which they began."""

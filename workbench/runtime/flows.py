"""Capacities, and the flows that cross them at max-min fair rates.

Each flow has a *bottleneck*: a capacity that is full, and at which no other flow is faster
(Bertsekas and Gallager, Data Networks, 1992, 6.5.2). So all flows of one bottleneck run at one
rate, its level. A virtual clock counts the bits that each of them has been served (Parekh and
Gallager 1993, Sec. III): a flow's end is a reading of that clock, known when it joins and unchanged
by others that come and go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

import simpy

from workbench.clusters import Schedule
from workbench.runtime.kernel import refuse_endless

SCALE_BITS = 80
SCALE = 1 << SCALE_BITS
"""Bits and rates are whole numbers of 2^-80 bits: sums are exact whatever their order."""
UNLIMITED = 1 << 1200
_LEAST_PURGED = 32

_numbers = count()


def parts(bits: float) -> int:
    """Bits in whole parts."""
    return int(math.ldexp(bits, SCALE_BITS))


def below(rate: int, other: int) -> bool:
    """Whether a rate is less than another, beyond rounding."""
    return rate < other - (other >> 50)


class Flow:
    """Bits on their way through capacities.

    Attributes
    ----------
    number
        Counts flows in the order in which they began.
    left
        Bits, while the flow has no bottleneck.
    end
        Reading of the bottleneck's clock at which the flow ends.
    limit
        Rate above which the flow may fill a capacity that is not watched.
    """

    __slots__ = ("bottleneck", "capacities", "done", "end", "left", "limit", "number")

    def __init__(
        self, capacities: tuple[Capacity, ...], bits: float, done: Callable[[], None]
    ) -> None:
        self.capacities, self.done = capacities, done
        self.number = self.end = self.limit = 0
        self.left = parts(bits)
        self.bottleneck: Capacity | None = None

    @property
    def rate_bps(self) -> float:
        """Rate now."""
        return 0.0 if self.bottleneck is None else self.bottleneck.level / SCALE

    def narrowest(self) -> Capacity:
        """Return the capacity that gives the least to each of its flows if all get equal parts."""
        narrowest = self.capacities[0]
        for capacity in self.capacities[1:]:
            if capacity.total * len(narrowest.flows) < narrowest.total * len(capacity.flows):
                narrowest = capacity
        return narrowest

    def set_limit(self) -> None:
        """Set the limit, which depends on what is watched and on how many flows share it."""
        limit = UNLIMITED
        for capacity in self.capacities:
            if not capacity.watched and capacity.safe < limit:
                limit = capacity.safe
        if self.bottleneck is not None and limit != self.limit:
            self.limit = limit
            if limit < UNLIMITED:
                self.bottleneck.limits.push((limit, self.number, self))


class Heap:
    """Entries, the smallest first; those that no longer count are passed over."""

    __slots__ = ("counts", "entries", "most")

    def __init__(self, counts: Callable[[Any], bool]) -> None:
        self.entries: list[Any] = []
        self.counts, self.most = counts, _LEAST_PURGED

    def push(self, entry: Any) -> None:
        """Add an entry."""
        heappush(self.entries, entry)
        if len(self.entries) > self.most:
            self.entries = [entry for entry in self.entries if self.counts(entry)]
            heapify(self.entries)
            self.most = _LEAST_PURGED + 2 * len(self.entries)

    def top(self) -> Any:
        """Return the smallest entry, None if there is none."""
        entries = self.entries
        while entries and not self.counts(entries[0]):
            heappop(entries)
        return entries[0] if entries else None


class Capacity:
    """Bits per second that flows share: of a link, or of one direction of a network interface.

    A capacity that is *watched* knows the rates of all its flows: `held` flows whose bottleneck it
    is run at its `level`; the others are grouped by their bottleneck (`elsewhere`). One that is not
    watched has room, as none of its flows is faster than `safe`, an equal part of it.
    """

    __slots__ = (
        "change", "clock", "due_s", "elsewhere", "elsewhere_rate", "ends", "flows", "held",
        "in_review", "level", "limits", "number", "rates", "safe", "schedule", "since_s", "total",
        "watched", "watchers",
    )  # fmt: skip

    def __init__(self, bps: float | Schedule) -> None:
        self.number = next(_numbers)
        schedule = Schedule.of(bps)
        self.schedule = schedule if schedule.constant is None else None
        self.change: simpy.Event | None = None  # of the schedule
        self.total = self.safe = parts(schedule.at(0.0))
        self.flows: dict[Flow, None] = {}
        self.watched = self.in_review = False
        # Flows whose bottleneck this is:
        self.held = self.level = self.clock = 0
        self.since_s, self.due_s = 0.0, math.inf
        self.ends = Heap(lambda entry: entry[2].bottleneck is self and entry[2].end == entry[0])
        self.limits = Heap(lambda entry: entry[2].bottleneck is self and entry[2].limit == entry[0])
        self.watchers: dict[Capacity, None] = {}  # watched capacities that they cross
        # The other flows, while this is watched:
        self.elsewhere: dict[Capacity, dict[Flow, None]] = {}
        self.elsewhere_rate = 0
        self.rates = Heap(lambda entry: entry[2] in self.elsewhere and entry[2].level == -entry[0])

    def set_total(self, now_s: float) -> None:
        """Note what the flows share now, and how many they are."""
        if self.schedule is not None:
            self.total = parts(self.schedule.at(now_s))
        before, self.safe = self.safe, self.total >> (len(self.flows) - 1).bit_length()
        if self.safe < before and not self.watched:
            bottlenecks = {flow.bottleneck for flow in self.flows if flow.bottleneck is not None}
            if any(below(self.safe, bottleneck.level) for bottleneck in bottlenecks):
                self.watch()
            for flow in self.flows:
                flow.set_limit()

    def share(self) -> int:
        """Level at which this is full; unlimited if it is no flow's bottleneck, and has room."""
        left = self.total - self.elsewhere_rate
        if self.held:
            return max(0, left) // self.held
        return 0 if below(self.total, self.elsewhere_rate) else UNLIMITED

    # Flows whose bottleneck this is

    def hold(self, flow: Flow, now_s: float) -> None:
        """Become a flow's bottleneck."""
        if not self.watched:
            self.watch()
        if flow.bottleneck is not None:
            flow.bottleneck.release(flow, now_s)
        self._advance(now_s)
        self.held += 1
        flow.bottleneck, flow.end, flow.limit = self, self.clock + flow.left, UNLIMITED
        self.ends.push((flow.end, flow.number, flow))
        flow.set_limit()
        for other in flow.capacities:
            if other.watched and other is not self:
                other._add(flow, self)

    def release(self, flow: Flow, now_s: float) -> None:
        """Stop being a flow's bottleneck; store the bits that it has left."""
        self._advance(now_s)
        flow.left, flow.bottleneck = max(0, flow.end - self.clock), None
        self.held -= 1
        for other in flow.capacities:
            if other.watched and other is not self:
                group = other.elsewhere[self]
                del group[flow]
                other.elsewhere_rate -= self.level
                if not group:
                    del other.elsewhere[self], self.watchers[other]

    def set_level(self, level: int, now_s: float) -> None:
        """Let the flows run at a rate from now on."""
        self._advance(now_s)
        more, self.level = level - self.level, level
        for other in self.watchers:
            other.elsewhere_rate += more * len(other.elsewhere[self])
            other.rates.push((-level, self.number, self))

    def _advance(self, now_s: float) -> None:
        if now_s > self.since_s:
            if self.held:
                self.clock += parts(self.level / SCALE * (now_s - self.since_s))
            self.since_s = now_s

    def end_s(self) -> float:
        """When the next flow ends, in seconds; infinity if none does."""
        first = self.ends.top() if self.held else None
        if first is None:
            return math.inf
        left = first[0] - self.clock
        if left <= 0:
            return self.since_s
        if not self.level:
            return math.inf
        end_s: float = self.since_s + left / self.level
        if not end_s < math.inf:
            refuse_endless("a transfer over a limited interface")
        return end_s

    def pop_ended(self, by_s: float) -> Iterator[Flow]:
        """Yield flows that end by a time, possibly twice."""
        while self.end_s() <= by_s:
            yield heappop(self.ends.entries)[2]

    def pop_above_limit(self) -> Iterator[Flow]:
        """Flows that may fill a capacity that is not watched."""
        while (lowest := self.limits.top()) is not None and below(lowest[0], self.level):
            yield heappop(self.limits.entries)[2]

    # Flows whose bottleneck is another capacity

    def watch(self) -> None:
        """Know the rates of all flows from now on."""
        self.watched = True
        for flow in self.flows:
            if flow.bottleneck is not None:
                self._add(flow, flow.bottleneck)

    def unwatch(self) -> None:
        """Rely on limits again."""
        self.watched, self.elsewhere_rate = False, 0
        for bottleneck in self.elsewhere:
            del bottleneck.watchers[self]
        self.elsewhere.clear()
        for flow in self.flows:
            flow.set_limit()

    def fastest(self) -> Capacity | None:
        """Bottleneck of those that are fastest."""
        top = self.rates.top() if self.elsewhere else None
        return None if top is None else top[2]

    def _add(self, flow: Flow, bottleneck: Capacity) -> None:
        if bottleneck not in self.elsewhere:
            self.elsewhere[bottleneck] = {}
            bottleneck.watchers[self] = None
            self.rates.push((-bottleneck.level, bottleneck.number, bottleneck))
        self.elsewhere[bottleneck][flow] = None
        self.elsewhere_rate += bottleneck.level

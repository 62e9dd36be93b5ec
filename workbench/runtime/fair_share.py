"""One capacity shared fairly by many transfers, at a cost that grows with their logarithm.

Transfers that are held back all run at one rate, the level. A virtual clock counts the bits that
each of them has been served (Parekh and Gallager 1993, Sec. III): a transfer's end is a reading of
that clock, known when it begins and unchanged by others that come and go. Transfers whose own cap
is below the level run at that; those of one cap form a group with a clock, so that a change touches
groups, not transfers.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from typing import Any

import simpy

from workbench.runtime.flows import SCALE, Flow, Interface, parts


class Group:
    """Transfers of one cap.

    While they run at their cap, the group's clock shows `shown` at `since_s`; while they are held
    back, it is `ahead` of the clock of all who are.
    """

    __slots__ = (
        "ahead", "cap_bps", "cap_entry", "capped", "end_entry", "ends", "shown", "since_s", "size",
    )  # fmt: skip

    def __init__(self, cap_bps: float, now_s: float) -> None:
        self.cap_bps = cap_bps
        self.capped = False
        self.ahead = self.shown = 0
        self.since_s = now_s
        self.ends: list[tuple[int, int, int, Flow]] = []  # a heap; who has left is passed over
        self.size = 0
        self.cap_entry = self.end_entry = -1  # which entries of the heaps below count


class FairShare:
    """Max-min fair rates of transfers that share one capacity and nothing else.

    `level_bps` is the rate of those that are held back; infinity if none is. Heaps keep entries
    that no longer count, and are rid of them when these are most.
    """

    def __init__(self, interface: Interface, now_s: float) -> None:
        self.interface = interface
        self.level_bps = interface.bps / max(1, len(interface.flows))  # until settled
        self.due_s = math.inf
        self.timer: simpy.Event | None = None
        self._by_cap: dict[float, Group] = {}
        self._clock, self._since_s = 0, now_s
        self._held = 0  # transfers that are held back
        self._capped_sum = 0  # rates of the others, in parts
        self._entries = 0
        self._limits: list[tuple[float, int, Flow]] = []
        self._level_caps: list[tuple[float, int, Group]] = []
        self._level_ends: list[tuple[int, int, Group]] = []
        self._capped_caps: list[tuple[float, int, Group]] = []
        self._capped_ends: list[tuple[float, int, Group]] = []

    def interfaces(self) -> list[Interface]:
        """Return the one that is shared."""
        return [self.interface]

    def join(self, flow: Flow, now_s: float) -> None:
        """Let a transfer share from now on, once settled."""
        self._advance(now_s)
        if flow.rate_bps:
            flow.run_at(0.0, now_s)
        cap_bps, left = flow.bps, flow.left
        group = self._by_cap.get(cap_bps)
        if group is None:
            group = self._by_cap[cap_bps] = Group(cap_bps, now_s)
            group.capped = cap_bps < self.level_bps  # most likely; `settle` sees
            self._note_cap(group)
        flow.group, flow.share = group, self
        flow.end = self._reading(group, now_s) + left
        self._entries += 1
        heappush(group.ends, (flow.end, flow.number, self._entries, flow))
        self._count(group, 1)
        group.size += 1
        if group.ends[0][3] is flow:
            self._note_end(group)
        if flow.limit_bps < cap_bps:
            self._limit(flow)

    def update(self, flow: Flow, now_s: float) -> None:
        """Note that a transfer's cap or limit may have changed."""
        if flow.bps != flow.group.cap_bps:
            self.leave(flow, now_s)
            self.join(flow, now_s)
        elif flow.limit_bps < flow.bps:
            self._limit(flow)

    def leave(self, flow: Flow, now_s: float) -> None:
        """Take a transfer out, and note what it has left."""
        self._advance(now_s)
        group = flow.group
        flow.left = max(0, flow.end - self._reading(group, now_s))
        flow.since_s = now_s
        flow.group = flow.share = None
        group.size -= 1
        self._count(group, -1)
        if not group.size or group.ends[0][3] is flow:
            self._renew(group)

    def settle(self, now_s: float) -> float:
        """Set the rates after transfers came or went, or the capacity changed.

        Returns when the next transfer ends at these rates, in seconds; infinity if none does.
        """
        self._advance(now_s)
        capacity = parts(self.interface.bps)
        level_bps = self._level(capacity)
        caps = self._capped_caps  # largest first; what is held back raises the level
        while caps and (caps[0][1] != caps[0][2].cap_entry or caps[0][2].cap_bps > level_bps):
            _, entry, group = heappop(caps)
            if entry == group.cap_entry:
                self._turn(group, now_s, capped=False)
                level_bps = self._level(capacity)
        caps = self._level_caps  # smallest first; what reaches its cap raises the level, too
        while caps and (caps[0][1] != caps[0][2].cap_entry or caps[0][2].cap_bps <= level_bps):
            _, entry, group = heappop(caps)
            if entry == group.cap_entry:
                self._turn(group, now_s, capped=True)
                level_bps = self._level(capacity)
        self.level_bps = level_bps
        return self._next_end_s()

    def rate_bps(self, flow: Flow) -> float:
        """A transfer's rate."""
        return flow.group.cap_bps if flow.group.capped else self.level_bps

    def over_limits(self) -> list[tuple[Flow, float]]:
        """Take out the limits that rates are above; the transfers stay."""
        over = []
        while self._limits and self._limits[0][0] < self.level_bps:
            entry = heappop(self._limits)
            if self._is_limited(entry):
                over.append((entry[2], min(entry[2].bps, self.level_bps)))
        return over

    def pop_ended(self, by_s: float) -> list[Flow]:
        """Take out the transfers that end by a time, in the order in which they began."""
        ended: list[Flow] = []
        while self._next_end_s() <= by_s:
            capped = self._capped_ends
            at_cap = bool(capped) and capped[0][0] <= by_s
            group = capped[0][2] if at_cap else self._level_ends[0][2]
            ends, end = group.ends, group.ends[0][0]
            while ends and ends[0][0] == end:  # most often all that began at once
                flow = heappop(ends)[3]
                if flow.group is group and flow.end == end:
                    flow.group = flow.share = None
                    ended.append(flow)
                    group.size -= 1
                    self._count(group, -1)
            self._renew(group)
        return sorted(ended, key=lambda flow: flow.number)

    # The clock and the level

    def _advance(self, now_s: float) -> None:
        if now_s > self._since_s:
            if self._held:
                self._clock += parts(self.level_bps * (now_s - self._since_s))
            self._since_s = now_s

    def _level(self, capacity: int) -> float:
        left = capacity - self._capped_sum
        if self._held:
            return max(0, left) / (self._held * SCALE)
        return math.inf if left >= 0 else 0.0

    def _count(self, group: Group, change: int) -> None:
        if group.capped:
            self._capped_sum += change * parts(group.cap_bps)
        else:
            self._held += change

    def _reading(self, group: Group, now_s: float) -> int:
        if group.capped:
            return group.shown + parts(group.cap_bps * (now_s - group.since_s))
        return self._clock + group.ahead

    def _turn(self, group: Group, now_s: float, *, capped: bool) -> None:
        """Let a group run at its cap, or hold it back."""
        reading = self._reading(group, now_s)
        self._count(group, -group.size)
        group.capped = capped
        if capped:
            group.shown, group.since_s = reading, now_s
        else:
            group.ahead = reading - self._clock
        self._count(group, group.size)
        self._note_cap(group)
        self._note_end(group)

    def _next_end_s(self) -> float:
        due_s = math.inf
        ends, capped = self._level_ends, self._capped_ends
        while ends and ends[0][1] != ends[0][2].end_entry:
            heappop(ends)
        if ends:
            due_s = _due_s(self._since_s, ends[0][0] - self._clock, self.level_bps)
        while capped and capped[0][1] != capped[0][2].end_entry:
            heappop(capped)
        return min(due_s, capped[0][0]) if capped else due_s

    # Entries of the heaps

    def _limit(self, flow: Flow) -> None:
        self._entries += 1
        heappush(self._limits, (flow.limit_bps, self._entries, flow))
        if len(self._limits) > 16 + 4 * len(self.interface.flows):
            self._limits = [entry for entry in self._limits if self._is_limited(entry)]
            heapify(self._limits)

    def _is_limited(self, entry: tuple[float, int, Flow]) -> bool:
        limit_bps, _, flow = entry
        return flow.share is self and flow.limit_bps == limit_bps

    def _renew(self, group: Group) -> None:
        if group.size:
            self._note_end(group)
        else:
            group.cap_entry = group.end_entry = -1
            del self._by_cap[group.cap_bps]

    def _note_cap(self, group: Group) -> None:
        group.cap_entry = self._entries = self._entries + 1
        if group.capped:
            heappush(self._capped_caps, (-group.cap_bps, group.cap_entry, group))
        else:
            heappush(self._level_caps, (group.cap_bps, group.cap_entry, group))
        for heap in (self._capped_caps, self._level_caps):
            self._purge(heap, "cap_entry")

    def _note_end(self, group: Group) -> None:
        group.end_entry = self._entries = self._entries + 1
        ends = group.ends
        while ends[0][3].group is not group or ends[0][3].end != ends[0][0]:  # has left
            heappop(ends)
        if group.capped:
            due_s = _due_s(group.since_s, ends[0][0] - group.shown, group.cap_bps)
            heappush(self._capped_ends, (due_s, group.end_entry, group))
        else:
            heappush(self._level_ends, (ends[0][0] - group.ahead, group.end_entry, group))
        self._purge(self._level_ends, "end_entry")
        self._purge(self._capped_ends, "end_entry")

    def _purge(self, heap: list[Any], entry: str) -> None:
        if len(heap) > 16 + 4 * len(self._by_cap):
            heap[:] = [item for item in heap if item[1] == getattr(item[2], entry)]
            heapify(heap)


def _due_s(since_s: float, left: int, rate_bps: float) -> float:
    """When what is left at a time ends at a rate."""
    if left <= 0:
        return since_s
    return since_s + left / SCALE / rate_bps if rate_bps else math.inf

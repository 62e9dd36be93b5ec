"""Keeps the rates of all flows max-min fair, at a cost that grows with what a change affects."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from heapq import heappop, heappush
from operator import attrgetter

import simpy

from workbench.runtime.flows import Capacity, Flow, below
from workbench.runtime.kernel import LAST, Kernel

_ROUNDING = 2.0**-48
"""Relative difference in time up to which flows end together: 16 rounding errors."""


class FairSharing:
    """Max-min fair rates of flows that come and go, over capacities that may change.

    All that happens within one instant is settled once, at its end. What changes a capacity's share
    (its total, its flows, their rates elsewhere) has it reviewed, smallest share first: it becomes
    the bottleneck of those of its flows that are faster elsewhere, which changes the shares there.
    What is not affected is not looked at.
    """

    def __init__(self, env: Kernel) -> None:
        self.env = env
        self._begun = 0
        self._unsettled = False
        self._new: dict[Flow, None] = {}  # in this instant
        self._touched: dict[Capacity, None] = {}
        self._reviews: list[tuple[int, int, Capacity]] = []  # a heap by share
        self._due: list[tuple[float, int, Capacity]] = []  # a heap; some entries no longer count
        self._timer: simpy.Event | None = None
        self._timer_s = math.inf

    def join(self, flow: Flow) -> None:
        """Let a flow begin."""
        self._begun += 1
        flow.number = self._begun
        self._new[flow] = None
        for capacity in flow.capacities:
            capacity.flows[flow] = None
        self._touch(flow.capacities)

    def leave(self, flow: Flow) -> None:
        """Take a flow out, whether it has ended or not."""
        self._new.pop(flow, None)
        if flow.bottleneck is not None:
            flow.bottleneck.release(flow, self.env.now)
        for capacity in flow.capacities:
            del capacity.flows[flow]
            if not capacity.flows:
                capacity.watched, capacity.due_s = False, math.inf
                if capacity.change is not None:
                    self.env.cancel(capacity.change)
                    capacity.change = None
        shared = [capacity for capacity in flow.capacities if capacity.flows]
        if shared:
            self._touch(shared)
        else:
            self._set_timer()

    def _touch(self, capacities: Iterable[Capacity]) -> None:
        if not self._unsettled:
            self._unsettled = True
            self.env.call_at(self.env.now, self._settle, LAST)
        for capacity in capacities:
            self._touched[capacity] = None

    def _settle(self, _: simpy.Event) -> None:
        touched, new, now_s = self._touched, self._new, self.env.now
        self._touched, self._new, self._unsettled = {}, {}, False
        for capacity in touched:
            if capacity.flows:
                capacity.set_total(now_s)
                if capacity.schedule is not None and capacity.change is None:
                    self._await_change(capacity, capacity.schedule.next_change_s(now_s))
        for flow in new:
            flow.narrowest().hold(flow, now_s)
        for capacity in touched:
            self._review_later(capacity)
        reviewed: dict[Capacity, None] = {}
        while self._reviews:
            capacity = heappop(self._reviews)[2]
            capacity.in_review = False
            if capacity.watched:
                self._review(capacity, now_s)
                reviewed[capacity] = None
        for capacity in reviewed:
            end_s = capacity.end_s()
            if end_s != capacity.due_s:
                capacity.due_s = end_s
                if end_s < math.inf:
                    heappush(self._due, (end_s, capacity.number, capacity))
        self._set_timer()

    # Rates

    def _review_later(self, capacity: Capacity) -> None:
        if capacity.watched and not capacity.in_review:
            capacity.in_review = True
            heappush(self._reviews, (capacity.share(), capacity.number, capacity))

    def _review(self, capacity: Capacity, now_s: float) -> None:
        share, fastest = capacity.share(), capacity.fastest()
        while fastest is not None and below(share, fastest.level):
            moved = list(capacity.elsewhere[fastest])
            for flow in moved:
                capacity.hold(flow, now_s)
            for other in dict.fromkeys(other for flow in moved for other in flow.capacities):
                if other is not capacity:
                    self._review_later(other)
            share, fastest = capacity.share(), capacity.fastest()
        if not capacity.held:
            if fastest is None or fastest.level <= capacity.safe:
                capacity.unwatch()
            return
        if below(share, capacity.level) or below(capacity.level, share):
            capacity.set_level(share, now_s)
            for other in capacity.watchers:
                self._review_later(other)
        for flow in capacity.pop_above_limit():
            for other in flow.capacities:
                if not other.watched and below(other.safe, share):
                    other.watch()
                    self._review_later(other)
            flow.set_limit()

    # Times

    def _set_timer(self) -> None:
        due = self._due
        while due and due[0][0] != due[0][2].due_s:
            heappop(due)
        due_s = due[0][0] if due else math.inf
        if due_s != self._timer_s:
            if self._timer is not None:
                self.env.cancel(self._timer)
            self._timer, self._timer_s = None, due_s
            if due_s < math.inf:
                self._timer = self.env.call_at(max(due_s, self.env.now), self._end_due)

    def _end_due(self, _: simpy.Event) -> None:
        self._timer, self._timer_s = None, math.inf
        due, by_s = self._due, self.env.now * (1 + _ROUNDING)
        capacities: list[Capacity] = []
        while due and due[0][0] <= by_s:
            due_s, _number, capacity = heappop(due)
            if due_s == capacity.due_s:
                capacity.due_s = math.inf
                capacities.append(capacity)
        self._end(capacities, by_s)

    def _end(self, capacities: Iterable[Capacity], by_s: float) -> None:
        """End flows by a time, in the order in which they began."""
        found = {flow: None for capacity in capacities for flow in capacity.pop_ended(by_s)}
        ended = sorted(found, key=attrgetter("number"))
        for flow in ended:
            self.leave(flow)
        for flow in ended:
            flow.done()

    def _await_change(self, capacity: Capacity, at_s: float) -> None:
        if at_s < math.inf:
            capacity.change = self.env.call_at(at_s, partial(self._change, capacity))

    def _change(self, capacity: Capacity, _: simpy.Event) -> None:
        """Note that a capacity changes now.

        Flows end first whose last bit is left by rounding alone: with a capacity of 0 from now on
        they would wait until it rises again.
        """
        capacity.change = None
        self._touch((capacity,))
        bottlenecks = {flow.bottleneck: None for flow in capacity.flows if flow.bottleneck}
        self._end(bottlenecks, self.env.now * (1 + _ROUNDING))

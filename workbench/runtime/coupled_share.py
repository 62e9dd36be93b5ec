"""Interfaces that depend on each other, since some transfers cross two of them.

A change at one of them may change every rate. Of max-min fair rates none can grow but at the cost
of another that is no larger. All rates rise together; where an interface is full, or a transfer at
its own cap, those concerned stay and the others go on (Bertsekas and Gallager, Data Networks, 1992,
6.5.2). A few transfers are looked at one after the other; many are in arrays. In either case a
transfer's bits are counted, and its end computed, when its own rate changes, and only then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
import simpy
from numpy.typing import NDArray

from workbench.runtime.flows import SCALE, Flow, Interface, parts
from workbench.runtime.kernel import refuse_endless

MANY = 64
"""Transfers from which on arrays are faster."""
_CAP, _LIMIT, _LEFT, _SINCE, _RATE, _END = range(6)

Vector = NDArray[np.float64]
Places = NDArray[np.intp]


class CoupledShare:
    """Max-min fair rates of a few transfers that cross any of some interfaces.

    `turnover` counts transfers that have come or gone, so that others may be coupled by now.
    """

    def __init__(self) -> None:
        self.flows: list[Flow] = []  # flows[f.place] is f
        self.turnover = 0
        self.due_s = math.inf
        self.timer: simpy.Event | None = None
        self._places: dict[Interface, int] = {}

    def interfaces(self) -> list[Interface]:
        """Return those that are shared still."""
        return [interface for interface in self._places if interface.share is self]

    def add(self, interface: Interface) -> None:
        """Take an interface in, or note its capacity."""
        interface.share = self
        self._places.setdefault(interface, len(self._places))

    def join(self, flow: Flow, _now_s: float) -> None:
        """Let a transfer share from now on, once settled."""
        flow.share, flow.place = self, len(self.flows)
        self.flows.append(flow)
        self.turnover += 1

    def update(self, flow: Flow, now_s: float) -> None:
        """Note that a transfer's cap, its limit, or the interfaces that it shares have changed."""

    def leave(self, flow: Flow, now_s: float) -> None:
        """Take a transfer out, which goes on as it says itself."""
        last = self.flows.pop()
        if last is not flow:
            self.flows[flow.place], last.place = last, flow.place
        flow.share = None
        self.turnover += 1

    def settle(self, now_s: float) -> float:
        """Set the rates after a change; return when the next transfer ends, infinity if never."""
        places, flows = self._places, self.flows
        crossed = [[places[i] for i in f.interfaces if i.share is self] for f in flows]
        rates_bps = max_min_rates([f.bps for f in flows], crossed, [i.bps for i in places])
        for flow, rate_bps in zip(flows, rates_bps, strict=True):
            flow.run_at(rate_bps, now_s)
        return min([flow.end_s for flow in flows], default=math.inf)

    def rate_bps(self, flow: Flow) -> float:
        """A transfer's rate."""
        return flow.rate_bps

    def over_limits(self) -> list[tuple[Flow, float]]:
        """Return transfers above their limits, and their rates."""
        return [(flow, flow.rate_bps) for flow in self.flows if flow.rate_bps > flow.limit_bps]

    def pop_ended(self, by_s: float) -> list[Flow]:
        """Take out the transfers that end by a time, in the order in which they began."""
        ended = [flow for flow in self.flows if flow.end_s <= by_s]
        for flow in ended:
            self.leave(flow, by_s)
        return sorted(ended, key=lambda flow: flow.number)


class LargeCoupledShare(CoupledShare):
    """The same of many transfers."""

    def __init__(self) -> None:
        super().__init__()
        self._state = np.empty((6, 2 * MANY))
        self._crossed = np.zeros((2, 2 * MANY), np.intp)  # 0 for none, else a place and 1
        self._capacities = np.full(2 * MANY, math.inf)

    def add(self, interface: Interface) -> None:
        """Take an interface in, or note its capacity."""
        super().add(interface)
        place = self._places[interface] + 1
        if place == len(self._capacities):
            self._capacities = np.append(self._capacities, np.full(place, math.inf))
        self._capacities[place] = interface.bps

    def join(self, flow: Flow, now_s: float) -> None:
        """Let a transfer share from now on, once settled."""
        super().join(flow, now_s)
        if flow.place == self._crossed.shape[1]:
            self._state = np.hstack([self._state, np.empty_like(self._state)])
            self._crossed = np.hstack([self._crossed, np.zeros_like(self._crossed)])
        state = flow.left / SCALE, flow.since_s, flow.rate_bps, flow.end_s
        self._state[_LEFT:, flow.place] = state
        self.update(flow, now_s)

    def update(self, flow: Flow, now_s: float) -> None:
        """Note that a transfer's cap, its limit, or the interfaces that it shares have changed."""
        place = flow.place
        self._state[: _LIMIT + 1, place] = flow.bps, flow.limit_bps
        through = [self._places[i] + 1 for i in flow.interfaces if i.share is self]
        self._crossed[:, place] = through if len(through) == 2 else (through[0], 0)

    def leave(self, flow: Flow, now_s: float) -> None:
        """Take a transfer out, and note how it goes on."""
        _, _, left, flow.since_s, flow.rate_bps, flow.end_s = self._state[:, flow.place].tolist()
        flow.left = parts(left)
        super().leave(flow, now_s)
        if (last := len(self.flows)) != flow.place:
            self._state[:, flow.place] = self._state[:, last]
            self._crossed[:, flow.place] = self._crossed[:, last]

    def settle(self, now_s: float) -> float:
        """Set the rates after a change; return when the next transfer ends, infinity if never."""
        count = len(self.flows)
        if not count:
            return math.inf
        state, capacities = self._state[:, :count], self._capacities[: len(self._places) + 1]
        rates_bps = max_min_rates_of_many(state[_CAP], self._crossed[:, :count], capacities)
        (changed,) = (rates_bps != state[_RATE]).nonzero()
        if len(changed):
            rates_bps = rates_bps[changed]
            _, _, left, since_s, before_bps, _ = state.take(changed, axis=1)
            left = np.maximum(left - before_bps * (now_s - since_s), 0.0)
            seconds = np.full(len(changed), math.inf)
            with np.errstate(over="ignore"):
                np.divide(left, rates_bps, out=seconds, where=rates_bps > 0)
            if np.isinf(seconds[rates_bps > 0]).any():
                refuse_endless("a transfer over a limited interface")
            state[_LEFT, changed], state[_SINCE, changed] = left, now_s
            state[_RATE, changed], state[_END, changed] = rates_bps, now_s + seconds
        return float(state[_END].min())

    def rate_bps(self, flow: Flow) -> float:
        """A transfer's rate."""
        return float(self._state[_RATE, flow.place])

    def over_limits(self) -> list[tuple[Flow, float]]:
        """Transfers above their limits, and their rates."""
        state = self._state[:, : len(self.flows)]
        rates_bps = state[_RATE]
        (over,) = (rates_bps > state[_LIMIT]).nonzero()
        return [(self.flows[place], float(rates_bps[place])) for place in over]

    def pop_ended(self, by_s: float) -> list[Flow]:
        """Take out the transfers that end by a time, in the order in which they began."""
        (places,) = (self._state[_END, : len(self.flows)] <= by_s).nonzero()
        ended = [self.flows[place] for place in places]
        for flow in ended:
            self.leave(flow, by_s)
        return sorted(ended, key=lambda flow: flow.number)


def max_min_rates(
    caps_bps: Sequence[float],
    crossed: Sequence[Sequence[int]],
    capacities_bps: Sequence[float],
) -> list[float]:
    """Rates, one transfer after the other.

    The fullest interface is found by a heap: as others stay, an interface's share only grows.

    `caps_bps` is what each transfer reaches at most on its own link (infinity allowed if it crosses
    an interface), `crossed` the interfaces that it crosses, as indices into `capacities_bps`, none
    twice.
    """
    rates_bps = [-1.0] * len(caps_bps)
    left_bps = list(capacities_bps)
    members: list[list[int]] = [[] for _ in capacities_bps]
    for transfer, interfaces in enumerate(crossed):
        for interface in interfaces:
            members[interface].append(transfer)
    counts = [len(transfers) for transfers in members]
    rising = sorted(range(len(caps_bps)), key=caps_bps.__getitem__, reverse=True)
    shares = [(left_bps[i] / count, i) for i, count in enumerate(counts) if count]
    heapify(shares)

    while rising:
        if rates_bps[rising[-1]] >= 0:
            rising.pop()
            continue
        share_bps, fullest = shares[0] if shares else (math.inf, -1)
        if fullest >= 0:
            now_bps = left_bps[fullest] / counts[fullest] if counts[fullest] else math.inf
            if now_bps != share_bps:
                heappop(shares)
                if counts[fullest]:
                    heappush(shares, (now_bps, fullest))
                continue
        capped = caps_bps[rising[-1]] <= share_bps
        bps = caps_bps[rising[-1]] if capped else share_bps
        for transfer in (rising.pop(),) if capped else members[fullest]:
            if rates_bps[transfer] >= 0:
                continue
            rates_bps[transfer] = bps
            for interface in crossed[transfer]:
                counts[interface] -= 1
                left = left_bps[interface] - bps
                left_bps[interface] = left if left > 0 else 0.0
    return rates_bps


def max_min_rates_of_many(caps_bps: Vector, crossed: Places, capacities_bps: Vector) -> Vector:
    """Rates, many transfers at once.

    As others stay, shares only grow. So all interfaces are full whose share is the least among
    those that their transfers cross, and the caps of these; and a transfer stays at its cap if no
    share is below that.

    `crossed` are the two interfaces of each transfer, in rows; an interface of infinite capacity
    where it crosses a single one.
    """
    rates_bps = np.empty(len(caps_bps))
    left_bps, interfaces = capacities_bps.copy(), len(capacities_bps)
    rising = np.arange(len(caps_bps))
    first, second = crossed
    while True:
        counts = np.bincount(first, minlength=interfaces)
        counts += np.bincount(second, minlength=interfaces)
        shares = left_bps / np.maximum(counts, 1)
        of_first, of_second = shares.take(first), shares.take(second)
        bps = np.minimum(caps_bps, np.minimum(of_first, of_second))
        rates_bps[rising] = bps
        open_ = np.zeros(interfaces, bool)
        for ends, most_bps in ((first, of_first), (second, of_second)):
            open_[ends.take((bps < most_bps).nonzero()[0])] = True
        goes_on = open_.take(first) & open_.take(second) & (bps < caps_bps)
        later = goes_on.nonzero()[0]
        if not len(later):
            return rates_bps
        stays = (~goes_on).nonzero()[0]
        bps = bps.take(stays)
        for ends in (first, second):
            left_bps -= np.bincount(ends.take(stays), bps, interfaces)
        np.maximum(left_bps, 0.0, out=left_bps)
        first, second = first.take(later), second.take(later)
        rising, caps_bps = rising.take(later), caps_bps.take(later)

"""Interfaces that depend on each other, since some transfers cross two of them.

A change at one of them may change every rate, so all transfers are in arrays, and a settlement costs
a few operations on these. A transfer's bits are counted, and its end computed, when its rate
changes, and only then.
"""

from __future__ import annotations

import math

import numpy as np
import simpy

from workbench.runtime.arguments import refuse_endless
from workbench.runtime.flows import SCALE, Flow, Interface, parts
from workbench.runtime.max_min import max_min_rates, max_min_rates_of_many

_FEW = 24  # transfers, of which rates are found sooner one after the other
_CAP, _LIMIT, _LEFT, _SINCE, _RATE, _END = range(6)


class CoupledShare:
    """Max-min fair rates of transfers that cross any of some interfaces.

    `gone` counts transfers that have left: without them, the interfaces may no longer be coupled.
    """

    __slots__ = ("_capacities", "_crossed", "_places", "_state", "flows", "gone", "timer")

    def __init__(self) -> None:
        self.flows: list[Flow] = []  # flows[f.place] is f
        self._places: dict[Interface, int] = {}  # from 1 on; 0 is for none
        self.gone = 0
        self.timer: simpy.Event | None = None
        self._state = np.empty((6, 16))
        self._crossed = np.zeros((2, 16), np.intp)
        self._capacities = np.full(16, math.inf)

    def interfaces(self) -> list[Interface]:
        """Return those that are shared still."""
        return [one for one in self._places if one.share is self]

    def add(self, interface: Interface) -> None:
        """Take an interface in, or note its capacity."""
        interface.share = self
        place = self._places.setdefault(interface, len(self._places) + 1)
        if place == len(self._capacities):
            self._capacities = np.append(self._capacities, np.full(place, math.inf))
        self._capacities[place] = interface.bps

    def join(self, flow: Flow, now_s: float) -> None:
        """Let a transfer share from now on, once settled."""
        flow.place = len(self.flows)
        if flow.place == self._crossed.shape[1]:
            self._state = np.hstack([self._state, np.empty_like(self._state)])
            self._crossed = np.hstack([self._crossed, np.zeros_like(self._crossed)])
        self.flows.append(flow)
        flow.share = self
        end_s = math.inf if flow.left else now_s
        self._state[:, flow.place] = 0.0, 0.0, flow.left / SCALE, now_s, 0.0, end_s
        self.update(flow, now_s)

    def update(self, flow: Flow, _now_s: float) -> None:
        """Note a transfer's cap, its limit, and the interfaces that it shares."""
        place = flow.place
        self._state[_CAP, place], self._state[_LIMIT, place] = flow.bps, flow.limit_bps
        through = [self._places[one] for one in flow.interfaces if one.share is self]
        self._crossed[:, place] = through if len(through) == 2 else (through[0], 0)

    def leave(self, flow: Flow, now_s: float) -> int:
        """Take a transfer out; return the parts that it has left."""
        _, _, left, since_s, rate_bps, _ = self._state[:, flow.place].tolist()
        self._remove(flow)
        self.gone += 1
        return max(0, parts(left) - parts(rate_bps * (now_s - since_s)))

    def _remove(self, flow: Flow) -> None:
        last, place = self.flows.pop(), flow.place
        if last is not flow:
            self.flows[place], last.place = last, place
            self._state[:, place] = self._state[:, len(self.flows)]
            self._crossed[:, place] = self._crossed[:, len(self.flows)]
        flow.share = None

    @np.errstate(over="ignore")
    def settle(self, now_s: float) -> float:
        """Set the rates after a change; return when the next transfer ends, infinity if never."""
        count = len(self.flows)
        if not count:
            return math.inf
        state = self._state[:, :count]
        crossed, capacities = self._crossed[:, :count], self._capacities[: len(self._places) + 1]
        if count > _FEW:
            rates_bps = max_min_rates_of_many(state[_CAP], crossed, capacities)
        else:
            caps_bps, through = state[_CAP].tolist(), crossed.T.tolist()
            rates_bps = np.array(max_min_rates(caps_bps, through, capacities.tolist()))
        (changed,) = (rates_bps != state[_RATE]).nonzero()
        if len(changed):
            rates_bps = rates_bps[changed]
            _, _, left, since_s, before_bps, _ = state[:, changed]
            left = np.maximum(left - before_bps * (now_s - since_s), 0.0)
            seconds = np.where(left > 0, math.inf, 0.0)
            np.divide(left, rates_bps, out=seconds, where=rates_bps > 0)
            if np.isinf(seconds[rates_bps > 0]).any():
                refuse_endless("a transfer over a limited interface")
            state[_LEFT, changed], state[_SINCE, changed] = left, now_s
            state[_RATE, changed], state[_END, changed] = rates_bps, now_s + seconds
        return float(state[_END].min())

    def over_limits(self) -> list[tuple[Flow, float]]:
        """Transfers above their limits, and their rates."""
        rates_bps = self._state[_RATE, : len(self.flows)]
        (over,) = (rates_bps > self._state[_LIMIT, : len(self.flows)]).nonzero()
        return [(self.flows[place], float(rates_bps[place])) for place in over]

    def pop_ended(self, by_s: float) -> list[Flow]:
        """Take out the transfers that end by a time, in the order in which they began."""
        (places,) = (self._state[_END, : len(self.flows)] <= by_s).nonzero()
        ended = [self.flows[place] for place in places]
        for flow in ended:
            self._remove(flow)
        self.gone += len(ended)
        return sorted(ended, key=lambda flow: flow.number)

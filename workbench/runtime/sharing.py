"""Transfers that share the capacity of nodes' network interfaces, as fluid flows."""

from __future__ import annotations

import math
from collections.abc import Callable

import simpy
from simpy.events import Timeout

from workbench.clusters import Schedule
from workbench.runtime.kernel import LAST, Kernel
from workbench.runtime.max_min import max_min_rates


class Interface:
    """One direction of a node's network interface, and the flows through it."""

    __slots__ = ("capacity", "flows")

    def __init__(self, capacity: Schedule) -> None:
        self.capacity = capacity
        self.flows: dict[Flow, None] = {}


class Flow:
    """A transfer's bytes on their way: `left_bits` at `since_s`, at `rate_bps` from then on."""

    __slots__ = ("cap", "change_s", "done", "end_s", "interfaces", "left_bits", "rate_bps", "since")

    def __init__(
        self,
        cap: Schedule | float,
        interfaces: tuple[Interface, ...],
        bits: float,
        now_s: float,
        done: Callable[[], None],
    ) -> None:
        self.cap = cap
        self.interfaces = interfaces
        self.left_bits = bits
        self.rate_bps = 0.0
        self.since = now_s
        self.end_s = self.change_s = math.inf
        self.done = done

    def set_rate(self, rate_bps: float, now_s: float) -> None:
        """Go on at another rate."""
        if rate_bps != self.rate_bps:
            self.left_bits = max(0.0, self.left_bits - self.rate_bps * (now_s - self.since))
            self.rate_bps, self.since = rate_bps, now_s
            self.end_s = now_s + self.left_bits / rate_bps if rate_bps else math.inf


class Sharing:
    """Keeps the rates of all flows max-min fair, at each start, end and change of a capacity.

    Whatever changes within one instant is settled once, at its end, and only for flows that
    share an interface, directly or through others, with one that changed.
    """

    def __init__(self, env: Kernel) -> None:
        self.env = env
        self.flows: dict[Flow, None] = {}
        self.unsettled: dict[Interface, None] = {}
        self.timer: Timeout | None = None
        self.due_s = math.inf

    def join(self, flow: Flow) -> None:
        """Let a flow begin."""
        self.flows[flow] = None
        for interface in flow.interfaces:
            interface.flows[flow] = None
        self._unsettle(flow)

    def leave(self, flow: Flow) -> None:
        """Take a flow out, whether it has ended or not."""
        del self.flows[flow]
        for interface in flow.interfaces:
            del interface.flows[flow]
        self._unsettle(flow)

    def _unsettle(self, flow: Flow) -> None:
        if not self.unsettled:
            self.env.call(self._settle, LAST)
        for interface in flow.interfaces:
            self.unsettled[interface] = None

    def _settle(self, _: simpy.Event) -> None:
        interfaces: list[Interface] = list(self.unsettled)
        flows: dict[Flow, None] = {}
        reached = self.unsettled
        self.unsettled = {}
        for interface in interfaces:  # grows while it is walked
            for flow in interface.flows:
                flows[flow] = None
                for other in flow.interfaces:
                    if other not in reached:
                        reached[other] = None
                        interfaces.append(other)
        now_s = self.env.now
        rates = self._rates(list(flows), interfaces, now_s)
        for flow, rate_bps in zip(flows, rates, strict=True):
            flow.set_rate(rate_bps, now_s)
            flow.change_s = min(
                interface.capacity.next_change_s(now_s) for interface in flow.interfaces
            )
            if isinstance(flow.cap, Schedule):
                flow.change_s = min(flow.change_s, flow.cap.next_change_s(now_s))
        self._set_timer()

    @staticmethod
    def _rates(flows: list[Flow], interfaces: list[Interface], now_s: float) -> list[float]:
        caps = [
            flow.cap.at(now_s) if isinstance(flow.cap, Schedule) else flow.cap for flow in flows
        ]
        if len(flows) == 1:  # most often, and quickly told
            return [min(caps + [one.capacity.at(now_s) for one in flows[0].interfaces])]
        place = {interface: index for index, interface in enumerate(interfaces)}
        return max_min_rates(
            caps,
            [[place[interface] for interface in flow.interfaces] for flow in flows],
            [interface.capacity.at(now_s) for interface in interfaces],
        )

    def _set_timer(self) -> None:
        due_s = min((min(flow.end_s, flow.change_s) for flow in self.flows), default=math.inf)
        if self.timer is not None:
            if due_s == self.due_s:
                return
            self.timer.callbacks.clear()
            self.timer = None
        self.due_s = due_s
        if due_s < math.inf:
            self.timer = Timeout(self.env, max(0.0, due_s - self.env.now))
            self.timer.callbacks.append(self._due)

    def _due(self, _: simpy.Event) -> None:
        self.timer = None
        for flow in [flow for flow in self.flows if min(flow.end_s, flow.change_s) <= self.due_s]:
            if flow.end_s <= self.due_s:
                self.leave(flow)
                flow.done()
            else:
                self._unsettle(flow)

"""Transfers that share the capacity of nodes' network interfaces, as fluid flows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import simpy

from workbench.clusters import Schedule
from workbench.runtime.arguments import refuse_endless
from workbench.runtime.fair_share import SCALE, FairShare, Member, parts
from workbench.runtime.kernel import LAST, Kernel
from workbench.runtime.max_min import Allocation, max_min_rates

_ROOM = 1e-9  # of a capacity, far above rounding
_FEW = 8
_MOST_REVIEWS = 4  # of an interface in an instant, in which rates and room may chase each other
_ROUNDING = 2.0**-48  # of the time: 16 roundings, within which a transfer ends before a change


class Interface:
    """One direction of a node's network interface, and the flows through it.

    With two flows or more it is shared, unless each of them has a budget that others keep it below
    and that leaves room: then it limits none. Where all flows of a shared interface cross no other
    shared one, a `FairShare` sets their rates; where one does, interfaces depend on each other,
    and each flow has a rate of its own (`Sharing._rerate`).
    """

    __slots__ = (
        "bps",
        "budgeted_bps",
        "budgets",
        "capacity",
        "change",
        "coupled",
        "crossing",
        "fair",
        "flows",
        "fresh",
        "reviewed_s",
        "reviews",
        "shared",
        "timer",
        "tried",
    )

    def __init__(self, capacity: Schedule) -> None:
        self.capacity = capacity
        self.bps = capacity.at(0.0)
        self.flows: dict[Flow, None] = {}
        self.shared = False
        self.coupled = 0  # flows that cross another shared interface, too
        self.crossing = 0  # flows that cross another interface, too
        self.budgets: dict[Flow, float] | None = None  # bits per second, where there is room
        self.budgeted_bps = 0.0
        self.fresh: list[Flow] = []  # flows that the last review did not know
        self.tried = 0  # flows when there was no room
        self.reviewed_s, self.reviews = -1.0, 0
        self.fair: FairShare[Flow] | None = None
        self.timer: simpy.Event | None = None  # of the next end in `fair`
        self.change: simpy.Event | None = None  # of the capacity


class Flow(Member):
    """A transfer's bytes on their way."""

    __slots__ = (
        "bottleneck",
        "bps",
        "cap",
        "change",
        "coupled",
        "done",
        "end_s",
        "fair",
        "interfaces",
        "left",
        "rate_bps",
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
        super().__init__()
        self.cap, self.interfaces, self.done = cap, interfaces, done
        self.coupled = False
        self.bps = math.inf  # what the link carries now, and the interfaces that are its alone
        self.change: simpy.Event | None = None
        # With a rate of its own: parts of bits that were left at `since_s`.
        self.left = parts(bits)
        self.since_s = self.rate_bps = 0.0
        self.end_s = math.inf
        self.bottleneck: Interface | None = None
        self.timer: simpy.Event | None = None
        self.fair: Interface | None = None  # whose fair share it takes part in


class Sharing:
    """Keeps the rates of all flows max-min fair, at each start, end and change of a capacity.

    Whatever changes within one instant is settled once, at its end, and only where it matters: a
    flow with its interfaces for itself, the flows of one interface, or those near enough in a
    network of coupled interfaces that their rates change.
    """

    def __init__(self, env: Kernel) -> None:
        self.env = env
        self._numbers = 0
        self._touched: dict[Interface, None] = {}
        self._placed: dict[Flow, None] = {}  # to be given a place, or another one
        self._called = False

    def join(self, flow: Flow) -> None:
        """Let a flow begin."""
        self._numbers += 1
        flow.number, flow.since_s = self._numbers, self.env.now
        crosses = len(flow.interfaces) > 1
        for interface in flow.interfaces:
            interface.flows[flow] = None
            if crosses:
                interface.crossing += 1
            if interface.budgets is not None:
                interface.fresh.append(flow)
            self._touched[interface] = None
        self._placed[flow] = None
        if not self._called:
            self._called = True
            self.env.call(self._settle, LAST)

    def leave(self, flow: Flow) -> None:
        """Take a flow out, whether it has ended or not."""
        if flow.rate_bps or flow.group is not None:
            self._displace(flow)
        if flow.change is not None:
            self.env.cancel(flow.change)
            flow.change = None
        if flow.coupled:
            self._couple(flow, -1)
        self._placed.pop(flow, None)
        crosses = len(flow.interfaces) > 1
        for interface in flow.interfaces:
            del interface.flows[flow]
            if crosses:
                interface.crossing -= 1
            if interface.budgets is not None:
                interface.budgeted_bps -= interface.budgets.pop(flow, 0.0)
            if interface.flows or interface.shared or interface.budgets is not None:
                self._touch((interface,))
            elif interface.change is not None:
                self.env.cancel(interface.change)
                interface.change = None

    def _touch(self, interfaces: Iterable[Interface]) -> None:
        for interface in interfaces:
            self._touched[interface] = None
        if not self._called:
            self._called = True
            self.env.call(self._settle, LAST)

    def _settle(self, _: simpy.Event) -> None:
        touched, placed = self._touched, self._placed
        self._touched, self._placed, self._called = {}, {}, False
        now_s = self.env.now
        for interface in touched:
            interface.bps = interface.capacity.at(now_s)
            if self._review(interface, now_s):
                placed |= interface.flows
        self._couple_all(touched, placed)
        for flow in placed:
            self._place(flow, now_s, touched)
        coupled = []
        for interface in touched:
            if interface.fair is not None:
                self._set_timer(interface, interface.fair.settle(interface.bps, now_s))
                for flow in interface.fair.over_limits():
                    self._overrun(flow, min(flow.bps, interface.fair.level_bps))
            elif interface.shared:
                coupled.append(interface)
            if interface.flows and interface.change is None:
                at_s = interface.capacity.next_change_s(now_s)
                if at_s < math.inf:
                    change = partial(self._interface_changes, interface)
                    interface.change = self.env.call_at(change, at_s)
        if coupled:
            self._rerate(coupled, now_s)

    # Room

    def _review(self, interface: Interface, now_s: float) -> bool:
        """See whether an interface is shared, or has room; whether that changes for its flows."""
        if not interface.crossing and interface.budgets is None:  # nothing would be won
            before_shared, interface.shared = interface.shared, len(interface.flows) > 1
            return interface.shared != before_shared
        before = interface.shared, interface.budgets
        fresh, interface.fresh = interface.fresh, []
        if len(interface.flows) < 2 or not interface.crossing:
            interface.budgets = None
        elif interface.budgets is None or not self._budget(interface, fresh):
            interface.budgets = self._budgets(interface, now_s)
        interface.shared = len(interface.flows) > 1 and interface.budgets is None
        return (interface.shared, interface.budgets) != before

    def _budget(self, interface: Interface, fresh: Iterable[Flow]) -> bool:
        """Give new flows a budget of what is left, if that suffices."""
        assert interface.budgets is not None
        spare_bps = interface.bps * (1 - _ROOM) - interface.budgeted_bps
        for flow in fresh:
            if flow in interface.flows:
                rate_bps = self._likely_bps(flow, interface)
                if spare_bps < rate_bps * (1 + _ROOM):
                    return False
                budget_bps = (rate_bps + spare_bps) / 2
                interface.budgets[flow] = budget_bps
                interface.budgeted_bps += budget_bps
                spare_bps -= budget_bps
        return spare_bps >= 0

    def _budgets(self, interface: Interface, now_s: float) -> dict[Flow, float] | None:
        """Budgets of all flows, above their likely rates; None where these leave no room."""
        if now_s != interface.reviewed_s:
            interface.reviewed_s, interface.reviews = now_s, 0
        interface.reviews += 1
        count = len(interface.flows)
        alike = interface.tried / 2 < count < 2 * interface.tried  # to when there was none
        if interface.reviews > _MOST_REVIEWS or (count > _FEW and alike):
            return None
        rates_bps = {flow: self._likely_bps(flow, interface) for flow in interface.flows}
        total_bps = sum(rates_bps.values())
        spare_bps = interface.bps - total_bps
        if not spare_bps > _ROOM * interface.bps:
            interface.tried = count
            return None
        interface.tried = 0
        more_bps = spare_bps / 2 / count
        interface.budgeted_bps = total_bps + spare_bps / 2
        return {flow: rate_bps + more_bps for flow, rate_bps in rates_bps.items()}

    def _likely_bps(self, flow: Flow, interface: Interface) -> float:
        """Rate of a flow if this interface has room; whether it is so shows when it is set."""
        cap = flow.cap
        bps = cap.at(self.env.now) if isinstance(cap, Schedule) else cap
        for other in flow.interfaces:
            if other is interface:
                continue
            if other.fair is not None and other.fair.level_bps < math.inf:
                bps = min(bps, other.fair.level_bps)
            elif other.fair is not None or len(other.flows) < 2:
                bps = min(bps, other.bps)
            elif other.fair is None and other.shared and flow.rate_bps:
                bps = min(bps, flow.rate_bps)
            else:
                bps = min(bps, other.bps / len(other.flows))
        return bps

    def _overrun(self, flow: Flow, rate_bps: float) -> None:
        """A flow is faster than a budget: the interface may limit it after all."""
        for interface in flow.interfaces:
            budgets = interface.budgets
            if budgets is not None and rate_bps > budgets.get(flow, math.inf):
                interface.budgets = None
                self._touch((interface,))

    # Places

    def _couple(self, flow: Flow, change: int) -> None:
        for interface in flow.interfaces:
            interface.coupled += change

    def _couple_all(self, touched: dict[Interface, None], placed: dict[Flow, None]) -> None:
        """Count anew which flows couple interfaces; where that begins or ends, all move."""
        were = {interface: interface.fair is None for interface in touched}
        for flow in list(placed):
            ends = flow.interfaces
            coupled = len(ends) > 1 and ends[0].shared and ends[1].shared
            if coupled != flow.coupled:
                for interface in flow.interfaces:
                    were.setdefault(interface, interface.fair is None)
                flow.coupled = coupled
                self._couple(flow, 1 if coupled else -1)
        for interface, was_apart in were.items():
            apart = not interface.shared or interface.coupled > 0
            touched[interface] = None
            if apart != was_apart:
                placed |= interface.flows
                now_s = self.env.now
                if apart:
                    for flow in interface.flows:
                        self._displace(flow)
                    interface.fair = None
                    self._set_timer(interface, math.inf)
                else:
                    interface.fair = FairShare(now_s)

    def _place(self, flow: Flow, now_s: float, touched: dict[Interface, None]) -> None:
        cap = flow.cap
        flow.bps = cap.at(now_s) if isinstance(cap, Schedule) else cap
        flow.limit_bps = math.inf
        home = None
        for interface in flow.interfaces:
            if interface.shared:
                home = interface
            elif interface.budgets is not None:
                flow.limit_bps = min(flow.limit_bps, interface.budgets[flow])
            else:
                flow.bps = min(flow.bps, interface.bps)
        if isinstance(cap, Schedule) and flow.change is None:
            at_s = cap.next_change_s(now_s)
            if at_s < math.inf:
                flow.change = self.env.call_at(partial(self._flow_changes, flow), at_s)
        if home is None:
            self._displace(flow)
            self._set_rate(flow, flow.bps, now_s)
            if flow.bps > flow.limit_bps:
                self._overrun(flow, flow.bps)
            return
        touched[home] = None
        if home.fair is not None:
            if flow.group is not None or flow.rate_bps:
                self._displace(flow)
            home.fair.join(flow, flow.bps, flow.left, now_s)
            flow.fair = home
            if flow.bps > flow.limit_bps:
                home.fair.limit(flow)

    def _displace(self, flow: Flow) -> None:
        """Take a flow out of its group, noting what it has left."""
        if flow.group is not None:
            assert flow.fair is not None
            assert flow.fair.fair is not None
            flow.left = flow.fair.fair.leave(flow, self.env.now)
            flow.fair, flow.since_s = None, self.env.now
        else:
            self._set_rate(flow, 0.0, self.env.now)

    # Rates of their own

    def _set_rate(self, flow: Flow, rate_bps: float, now_s: float) -> None:
        if rate_bps == flow.rate_bps:
            return
        if flow.rate_bps and now_s > flow.since_s:
            flow.left = max(0, flow.left - parts(flow.rate_bps * (now_s - flow.since_s)))
        flow.rate_bps, flow.since_s = rate_bps, now_s
        flow.end_s = math.inf
        if rate_bps:
            flow.end_s = now_s + flow.left / SCALE / rate_bps
            if not flow.end_s < math.inf:
                refuse_endless("a transfer over a limited interface")
        if flow.timer is not None:
            self.env.cancel(flow.timer)
            flow.timer = None
        if rate_bps:
            flow.timer = self.env.call_at(partial(self._ends, flow), flow.end_s)

    def _rerate(self, touched: Iterable[Interface], now_s: float) -> None:
        """Set the rates of flows that cross coupled interfaces of which some have changed.

        An allocation is max-min fair if each flow is at its cap or crosses a full interface at
        which no flow is faster. So rates are set near what has changed, as if others stayed, and
        the region grows by interfaces at which those others would no longer meet that.
        """
        region = dict.fromkeys(touched)
        while True:
            flows: dict[Flow, None] = {}
            for interface in region:
                flows |= interface.flows
            crossed = [[one for one in flow.interfaces if one.shared] for flow in flows]
            edge: dict[Interface, list[Flow]] = {
                one: [] for ones in crossed for one in ones if one not in region
            }
            for one in edge:
                edge[one] = [flow for flow in one.flows if flow not in flows]
            interfaces = [*region, *edge]
            places = {one: place for place, one in enumerate(interfaces)}
            rates = max_min_rates(
                [flow.bps for flow in flows],
                [[places[one] for one in ones] for ones in crossed],
                [one.bps for one in region]
                + [max(0.0, one.bps - sum(f.rate_bps for f in edge[one])) for one in edge],
            )
            unfair = self._no_longer_fair(flows, crossed, rates, interfaces, edge) if edge else []
            if not unfair:
                break
            region |= dict.fromkeys(unfair)
        for flow, (rate_bps, place) in zip(flows, rates, strict=True):
            flow.bottleneck = None if place is None else interfaces[place]
            self._set_rate(flow, rate_bps, now_s)
            if rate_bps > flow.limit_bps:
                self._overrun(flow, rate_bps)
        full = {place for _, place in rates}
        for place, one in enumerate(region):
            if place not in full and one.reviews < _MOST_REVIEWS:
                used_bps = sum(flow.rate_bps for flow in one.flows)
                if one.bps - used_bps > _ROOM * one.bps:
                    one.tried = 0
                    self._touch((one,))

    @staticmethod
    def _no_longer_fair(
        flows: Iterable[Flow],
        crossed: Iterable[Iterable[Interface]],
        rates: Iterable[Allocation],
        interfaces: Sequence[Interface],
        edge: Mapping[Interface, Sequence[Flow]],
    ) -> list[Interface]:
        """Interfaces at which flows outside of the region would be too fast, or could be faster."""
        changed: set[Interface] = set()
        levels: dict[Interface, float] = {}
        for flow, ones, (rate_bps, place) in zip(flows, crossed, rates, strict=True):
            if rate_bps != flow.rate_bps:
                changed.update(ones)
            if place is not None:
                levels[interfaces[place]] = rate_bps
        return [
            one
            for one, rest in edge.items()
            if any(
                flow.rate_bps > levels.get(one, math.inf)
                or (flow.bottleneck is one and one in changed)
                for flow in rest
            )
        ]

    # What comes

    def _set_timer(self, interface: Interface, due_s: float) -> None:
        if interface.timer is not None:
            self.env.cancel(interface.timer)
            interface.timer = None
        if due_s < math.inf:
            ends = partial(self._share_ends, interface, due_s)
            interface.timer = self.env.call_at(ends, max(due_s, self.env.now))

    def _ends(self, flow: Flow, _: simpy.Event | None = None) -> None:
        self.leave(flow)
        flow.done()

    def _share_ends(self, interface: Interface, by_s: float, _: simpy.Event | None = None) -> None:
        if interface.fair is not None:
            for flow in interface.fair.pop_ended(by_s):
                flow.fair, flow.left = None, 0
                self._ends(flow)
            self._touch((interface,))

    def _interface_changes(self, interface: Interface, _: simpy.Event) -> None:
        interface.change = None
        self._end_within_rounding(interface.flows)
        if not interface.shared:
            self._placed |= interface.flows
        self._touch((interface,))

    def _flow_changes(self, flow: Flow, _: simpy.Event) -> None:
        flow.change = None
        self._end_within_rounding((flow,))
        if flow in flow.interfaces[0].flows:
            self._placed[flow] = None
            self._touch(flow.interfaces)

    def _end_within_rounding(self, flows: Iterable[Flow]) -> None:
        """End flows that only rounding keeps from having ended before a capacity changes now.

        Where it changes to nothing, the last bit of them would wait until it comes back.
        """
        by_s = self.env.now * (1 + _ROUNDING)
        for flow in list(flows):
            if flow.fair is not None:
                self._share_ends(flow.fair, by_s)
            elif flow.end_s <= by_s:
                self._ends(flow)

"""Keeps the rates of all transfers over limited network interfaces max-min fair."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import simpy

from workbench.clusters import Schedule
from workbench.runtime.coupled_share import MANY, CoupledShare, LargeCoupledShare
from workbench.runtime.fair_share import FairShare
from workbench.runtime.flows import Flow, Interface
from workbench.runtime.kernel import LAST, Kernel

Share = FairShare | CoupledShare

_FEW = 16
"""Flows; an interface with more is a hub."""
_ROUNDING = 2.0**-48  # of the time: 16 roundings, within which a transfer ends before a change


class Sharing:
    """Keeps rates max-min fair at each start, end and change of a capacity.

    Whatever changes within one instant is settled once, at its end, and only where it matters: a
    flow that no shared interface limits, or the flows of a share. A shared interface has a
    `FairShare`, unless a flow crosses two of them: these have a `CoupledShare`, which is taken
    apart, and what it held looked at again, once as many flows have come and gone as it holds.
    """

    def __init__(self, env: Kernel) -> None:
        self.env = env
        self._numbers = 0
        self._touched: dict[Interface, None] = {}  # in this instant; settled at its end
        self._placed: dict[Flow, None] = {}  # that need a place, or another

    def join(self, flow: Flow) -> None:
        """Let a flow begin."""
        self._numbers += 1
        flow.number, flow.since_s = self._numbers, self.env.now
        for interface in flow.interfaces:
            interface.flows[flow] = None
        self._placed[flow] = None
        self._touch(flow.interfaces)

    def leave(self, flow: Flow) -> None:
        """Take a flow out, whether it has ended or not."""
        self._displace(flow)
        self._cancel_change(flow)
        self._placed.pop(flow, None)
        for interface in flow.interfaces:
            del interface.flows[flow]
            if interface.flows or interface.shared:
                self._touch((interface,))
            else:
                self._cancel_change(interface)

    def rate_bps(self, flow: Flow) -> float:
        """A flow's rate now."""
        share: Share | None = flow.share
        return flow.rate_bps if share is None else share.rate_bps(flow)

    def _cancel_change(self, of: Flow | Interface) -> None:
        if of.change is not None:
            self.env.cancel(of.change)
            of.change = None

    def _touch(self, interfaces: Iterable[Interface]) -> None:
        if not self._touched:
            self.env.call_at(self.env.now, self._settle, LAST)
        for interface in interfaces:
            self._touched[interface] = None

    def _settle(self, _: simpy.Event) -> None:
        touched, placed = self._touched, self._placed
        self._touched, self._placed = {}, {}
        now_s = self.env.now
        shares: dict[Share, None] = {}  # whose rates may change
        for share in [interface.share for interface in touched]:
            if share is not None:
                shares[share] = None
                if isinstance(share, CoupledShare) and share.turnover > max(_FEW, len(share.flows)):
                    placed |= dict.fromkeys(share.flows)
                    for interface in share.interfaces():
                        self._unshare(interface)
                        touched[interface] = None
        for interface in touched:
            self._review(interface, now_s, placed)
        before = set(shares)
        for flow in placed:
            self._place(flow, now_s, shares)
        for share in shares:
            if isinstance(share, CoupledShare) and share not in before:
                share.turnover = 0
        for share in list(shares):
            if type(share) is CoupledShare and len(share.flows) > MANY:
                whole = LargeCoupledShare()
                self._merge(share, whole, shares)
                shares[whole] = None
        for share in shares:
            self._set_timer(share, share.settle(now_s))
            for flow, rate_bps in share.over_limits():
                self._overrun(flow, rate_bps)

    # How interfaces limit their flows

    def _review(self, interface: Interface, now_s: float, placed: dict[Flow, None]) -> None:
        """See how an interface limits its flows, and which of them that moves."""
        bps, count = interface.capacity.at(now_s), len(interface.flows)
        before = interface.bps, interface.shared, interface.roomy
        few = 1 < count <= (_FEW // 2 if interface.shared else _FEW)  # not to and fro
        interface.bps = bps
        interface.shared = count > 1 and not (few and _cannot_fill(interface))
        interface.roomy = interface.shared and few and not interface.full and _has_room(interface)
        interface.shared &= not interface.roomy
        interface.full = False
        if interface.roomy or before != (bps, interface.shared, False):
            placed |= interface.flows
        if interface.share is not None:
            if not interface.shared:
                self._unshare(interface)
            elif isinstance(interface.share, CoupledShare):
                interface.share.add(interface)
        if interface.change is None and count:
            at_s = interface.capacity.next_change_s(now_s)
            if at_s < math.inf:
                change = partial(self._interface_changes, interface)
                interface.change = self.env.call_at(at_s, change)

    def _unshare(self, interface: Interface) -> None:
        """Take an interface out of its share, with its flows, which need places."""
        interface.share, interface.shared = None, False
        for flow in interface.flows:
            self._displace(flow)

    def _overrun(self, flow: Flow, rate_bps: float) -> None:
        """A flow takes more than an equal part of an interface that was roomy so far."""
        for interface in flow.interfaces:
            if interface.roomy and rate_bps > interface.bps / len(interface.flows):
                interface.full = True
                self._touch((interface,))

    # Places

    def _place(self, flow: Flow, now_s: float, shares: dict[Share, None]) -> None:
        cap = flow.cap
        flow.bps = cap.at(now_s) if isinstance(cap, Schedule) else cap
        flow.limit_bps = math.inf
        through = []
        for interface in flow.interfaces:
            if interface.shared:
                through.append(interface)
            elif interface.roomy:
                flow.limit_bps = min(flow.limit_bps, interface.bps / len(interface.flows))
            else:
                flow.bps = min(flow.bps, interface.bps)
        if isinstance(cap, Schedule) and flow.change is None:
            at_s = cap.next_change_s(now_s)
            if at_s < math.inf:
                flow.change = self.env.call_at(at_s, partial(self._flow_changes, flow))
        if not through:
            self._run_alone(flow, flow.bps)
            if flow.bps > flow.limit_bps:
                self._overrun(flow, flow.bps)
            return
        share: Share | None = through[0].share
        if share is None or share is not through[-1].share:
            share = self._share(through, shares)
        shares[share] = None
        if flow.share is share:
            share.update(flow, now_s)
        else:
            self._displace(flow)
            share.join(flow, now_s)

    def _share(self, through: list[Interface], shares: dict[Share, None]) -> Share:
        """One share for interfaces; where they have several, the largest takes the others in."""
        if len(through) == 1:
            fair = through[0].share = FairShare(through[0], self.env.now)
            return fair
        shared = (interface.share for interface in through)
        coupled = [share for share in shared if isinstance(share, CoupledShare)]
        if coupled:
            whole = max(coupled, key=lambda share: len(share.flows))
        else:
            many = sum(len(interface.flows) for interface in through) > MANY
            whole = LargeCoupledShare() if many else CoupledShare()
        for interface in through:
            if interface.share is None:
                whole.add(interface)
            elif interface.share is not whole:
                self._merge(interface.share, whole, shares)
        return whole

    def _merge(self, share: Share, whole: CoupledShare, shares: dict[Share, None]) -> None:
        """Move the interfaces and flows of a share."""
        interfaces = share.interfaces()
        flows = dict.fromkeys(
            flow for interface in interfaces for flow in interface.flows if flow.share is share
        )
        for interface in interfaces:
            whole.add(interface)
        for flow in flows:
            share.leave(flow, self.env.now)
            whole.join(flow, self.env.now)
        whole.turnover -= len(flows)
        self._set_timer(share, math.inf)
        shares.pop(share, None)

    def _displace(self, flow: Flow) -> None:
        """Take a flow out of where it is, noting what it has left."""
        if flow.share is not None:
            flow.share.leave(flow, self.env.now)
        elif flow.timer is not None:
            self.env.cancel(flow.timer)
            flow.timer = None

    def _run_alone(self, flow: Flow, rate_bps: float) -> None:
        """Let a flow go on that no shared interface limits."""
        if not flow.run_at(rate_bps, self.env.now) and flow.timer is not None:
            return
        self._displace(flow)
        if rate_bps:
            flow.timer = self.env.call_at(flow.end_s, partial(self._ends, flow))

    # What comes

    def _set_timer(self, share: Share, due_s: float) -> None:
        if share.timer is not None:
            if due_s == share.due_s and not share.timer.processed:
                return
            self.env.cancel(share.timer)
            share.timer = None
        share.due_s = due_s
        if due_s < math.inf:
            ends = partial(self._share_ends, share, due_s)
            share.timer = self.env.call_at(max(due_s, self.env.now), ends)

    def _ends(self, flow: Flow, _: simpy.Event | None = None) -> None:
        self.leave(flow)
        flow.done()

    def _share_ends(self, share: Share, by_s: float, _: simpy.Event | None = None) -> None:
        for flow in share.pop_ended(by_s):
            flow.left = 0
            self._ends(flow)

    def _interface_changes(self, interface: Interface, _: simpy.Event) -> None:
        interface.change = None
        self._end_within_rounding(interface.flows)
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
        shares = dict.fromkeys(flow.share for flow in flows)
        for flow in [flow for flow in flows if flow.share is None and flow.end_s <= by_s]:
            self._ends(flow)
        for share in shares:
            if share is not None:
                self._share_ends(share, by_s)


def _cannot_fill(interface: Interface) -> bool:
    """Whether its flows, each as fast as it may ever be, leave some of an interface."""
    left_bps = interface.bps
    for flow in interface.flows:
        cap = flow.cap
        bps = max(cap.values) if isinstance(cap, Schedule) else cap
        for other in flow.interfaces:
            if other is not interface and other.constant is not None and other.constant < bps:
                bps = other.constant
        left_bps -= bps
        if left_bps < 0:
            return False
    return True


def _has_room(interface: Interface) -> bool:
    """Whether all flows share a hub each that gives them well below an equal part of this."""
    most_bps = interface.bps / len(interface.flows) / 2
    for flow in interface.flows:
        for hub in flow.interfaces:
            count = len(hub.flows)
            if hub is not interface and count > _FEW and hub.bps / count <= most_bps:
                break
        else:
            return False
    return True

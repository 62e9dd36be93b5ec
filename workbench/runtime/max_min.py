"""Max-min fair rates of transfers that share network interfaces.

Of such rates none can grow but at the cost of one that is no larger. All rates rise together; where
an interface is full, or a transfer at its own cap, those concerned stay and the others go on
(Bertsekas and Gallager, Data Networks, 1992, 6.5.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Places = NDArray[np.intp]


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
    shares = [(left_bps[one] / count, one) for one, count in enumerate(counts) if count]
    heapify(shares)

    def settle(transfer: int, bps: float) -> None:
        rates_bps[transfer] = bps
        for interface in crossed[transfer]:
            counts[interface] -= 1
            left_bps[interface] = max(0.0, left_bps[interface] - bps)

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
        if caps_bps[rising[-1]] <= share_bps:
            transfer = rising.pop()
            settle(transfer, caps_bps[transfer])
        else:
            for transfer in members[fullest]:
                if rates_bps[transfer] < 0:
                    settle(transfer, share_bps)
    return rates_bps


def max_min_rates_of_many(caps_bps: Vector, crossed: Places, capacities_bps: Vector) -> Vector:
    """Rates, many transfers at once.

    As others stay, shares only grow. So all interfaces are full whose share is the least among
    those that their transfers cross, and the caps of these; and a transfer stays at its cap if no
    share is below that.

    `crossed` are the two interfaces of each transfer, in rows; one of infinite capacity where it
    crosses a single one.
    """
    rates_bps = np.empty(len(caps_bps))
    left_bps, interfaces = capacities_bps.copy(), len(capacities_bps)
    rising = np.arange(len(caps_bps))
    one, two = crossed
    while True:
        counts = np.bincount(one, minlength=interfaces)
        counts += np.bincount(two, minlength=interfaces)
        shares = left_bps / np.maximum(counts, 1)
        of_one, of_two = shares.take(one), shares.take(two)
        bps = np.minimum(caps_bps, np.minimum(of_one, of_two))
        rates_bps[rising] = bps
        open_ = np.zeros(interfaces, bool)
        for ends, most_bps in ((one, of_one), (two, of_two)):
            open_[ends.take((bps < most_bps).nonzero()[0])] = True
        goes_on = open_.take(one) & open_.take(two) & (bps < caps_bps)
        later = goes_on.nonzero()[0]
        if not len(later):
            return rates_bps
        stays = (~goes_on).nonzero()[0]
        bps = bps.take(stays)
        for ends in (one, two):
            left_bps -= np.bincount(ends.take(stays), bps, interfaces)
        np.maximum(left_bps, 0.0, out=left_bps)
        one, two, rising = one.take(later), two.take(later), rising.take(later)
        caps_bps = caps_bps.take(later)

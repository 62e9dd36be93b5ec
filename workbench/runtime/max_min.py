"""Max-min fair rates of transfers that share network interfaces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class Allocation(NamedTuple):
    """Bits per second of a transfer, and the interface that holds it back; None for its own cap."""

    bps: float
    bottleneck: int | None


def max_min_rates(
    caps_bps: Sequence[float],
    crossed: Sequence[Sequence[int]],
    capacities_bps: Sequence[float],
) -> list[Allocation]:
    """Rates of which none can grow but at the cost of one that is no larger.

    All rates rise together; where an interface is full, or a transfer at its own cap, those
    concerned stay and the others go on (Bertsekas and Gallager, Data Networks, 1992, 6.5.2). The
    fullest interface is found by a heap: as others stay, an interface's share only grows.

    `caps_bps` is what each transfer reaches at most on its own link (infinity allowed if it crosses
    an interface), `crossed` the interfaces that it crosses, as indices into `capacities_bps`, none
    twice.
    """
    rates: list[Allocation | None] = [None] * len(caps_bps)
    left_bps = list(capacities_bps)
    members: list[list[int]] = [[] for _ in capacities_bps]
    for transfer, interfaces in enumerate(crossed):
        for interface in interfaces:
            members[interface].append(transfer)
    counts = [len(transfers) for transfers in members]
    rising = sorted(range(len(caps_bps)), key=caps_bps.__getitem__, reverse=True)
    shares = [(left_bps[one] / count, one) for one, count in enumerate(counts) if count]
    heapify(shares)

    def settle(transfer: int, rate: Allocation) -> None:
        rates[transfer] = rate
        for interface in crossed[transfer]:
            counts[interface] -= 1
            left_bps[interface] = max(0.0, left_bps[interface] - rate.bps)

    while rising:
        if rates[rising[-1]] is not None:
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
            settle(transfer, Allocation(caps_bps[transfer], None))
        else:
            for transfer in members[fullest]:
                if rates[transfer] is None:
                    settle(transfer, Allocation(share_bps, fullest))
    return [rate for rate in rates if rate is not None]

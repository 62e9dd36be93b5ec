"""When transfers end that share an interface max-min fairly, as the simulated network has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Transfer(NamedTuple):
    """A transfer that may begin at `ready_s`: first an overhead, then bits that flow."""

    ready_s: float
    overhead_s: float
    bits: float


ROUNDING = 1e-12
"""What is left of a transfer that has ended, of its bits."""


def ends_s(
    links: Sequence[Sequence[Transfer]], most_bps: Sequence[float], interface_bps: float
) -> list[list[float]]:
    """Return when each transfer ends.

    Parameters
    ----------
    links
        Transfers of each link, in order: each begins when it is ready and the one before has ended.
    most_bps
        What each link carries.
    interface_bps
        What all links share.
    """
    ends: list[list[float]] = [[] for _ in links]
    begins_s = [_begins_s(transfers, 0, 0.0) for transfers in links]
    left: dict[int, float] = {}
    now_s = 0.0
    while left or min(begins_s, default=math.inf) < math.inf:
        rates = fair_bps([most_bps[at] for at in left], interface_bps)
        flows = list(zip(left, rates, strict=True))
        next_s = min((now_s + left[at] / bps for at, bps in flows), default=math.inf)
        next_s = max(now_s, min(next_s, *begins_s))
        for at, bps in flows:
            bits = links[at][len(ends[at])].bits
            rest = left[at] - bps * (next_s - now_s) if next_s > now_s else left[at]
            if rest <= ROUNDING * bits or bps == math.inf or next_s + rest / bps == next_s:
                del left[at]
                ends[at].append(next_s)
                begins_s[at] = _begins_s(links[at], len(ends[at]), next_s)
            else:
                left[at] = rest
        for at, begin_s in enumerate(begins_s):
            if begin_s <= next_s:
                begins_s[at] = math.inf
                left[at] = links[at][len(ends[at])].bits
        now_s = next_s
    return ends


def _begins_s(transfers: Sequence[Transfer], place: int, free_s: float) -> float:
    """When a transfer's bits begin to flow; infinity if there is none."""
    if place == len(transfers):
        return math.inf
    return max(transfers[place].ready_s, free_s) + transfers[place].overhead_s


def fair_bps(most_bps: Sequence[float], shared_bps: float) -> list[float]:
    """Max-min fair shares: who needs less than an equal part leaves the rest to the others."""
    shares, rest_bps, count = [0.0] * len(most_bps), shared_bps, len(most_bps)
    for at in sorted(range(count), key=most_bps.__getitem__):
        shares[at] = min(most_bps[at], rest_bps / count)
        rest_bps -= shares[at] if shares[at] < math.inf else 0.0
        count -= 1
    return shares

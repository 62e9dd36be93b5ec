"""Max-min fair rates of transfers that share network interfaces."""

from __future__ import annotations

from collections.abc import Sequence


def max_min_rates(
    caps_bps: Sequence[float],
    crossed: Sequence[Sequence[int]],
    capacities_bps: Sequence[float],
) -> list[float]:
    """Rates of which none can grow but at the cost of one that is no larger.

    All rates rise together; where an interface is full, or a transfer at its own cap, those
    concerned stay and the others go on (Bertsekas and Gallager, Data Networks, 1992, 6.5.2).

    Parameters
    ----------
    caps_bps
        What each transfer reaches at most, on its own link; infinity allowed if it crosses an
        interface.
    crossed
        Interfaces that each transfer crosses, as indices into `capacities_bps`; none twice.
    capacities_bps
        What each interface carries.

    Returns
    -------
    list of float
        Bits per second of each transfer.
    """
    rates = [0.0] * len(caps_bps)
    left_bps = list(capacities_bps)
    members: list[list[int]] = [[] for _ in capacities_bps]
    for transfer, interfaces in enumerate(crossed):
        for interface in interfaces:
            members[interface].append(transfer)
    counts = [len(transfers) for transfers in members]
    rising = sorted(range(len(caps_bps)), key=caps_bps.__getitem__, reverse=True)
    settled = [False] * len(caps_bps)

    def settle(transfer: int, rate_bps: float) -> None:
        settled[transfer] = True
        rates[transfer] = rate_bps
        for interface in crossed[transfer]:
            counts[interface] -= 1
            left_bps[interface] = max(0.0, left_bps[interface] - rate_bps)

    while rising:
        if settled[rising[-1]]:
            rising.pop()
            continue
        fullest, share_bps = -1, float("inf")
        for interface, count in enumerate(counts):
            if count and (share := left_bps[interface] / count) < share_bps:
                fullest, share_bps = interface, share
        if caps_bps[rising[-1]] <= share_bps:
            transfer = rising.pop()
            settle(transfer, caps_bps[transfer])
        else:
            for transfer in members[fullest]:
                if not settled[transfer]:
                    settle(transfer, share_bps)
    return rates

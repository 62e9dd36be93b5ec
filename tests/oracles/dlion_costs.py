"""Workers that compute, send everyone as many bits and wait, in clear loops and exact fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from tests.oracles.runtime import progressive_filling

MayBegin = Callable[[int, list[int]], bool]
"""Iterations that a worker has computed, and the newest of each peer's that it has."""


def begins_s(
    compute_s: Sequence[Fraction],
    bits: int,
    links_bps: int,
    interfaces_bps: Sequence[int],
    *,
    may_begin: MayBegin,
    iterations: int,
) -> list[list[Fraction]]:
    """When each worker begins its first iterations; interfaces carry as much in as out."""
    workers = range(len(compute_s))
    links = [(source, target) for source in workers for target in workers if source != target]
    now = Fraction(0)
    begun = [[Fraction(0)] for _ in workers]
    computed = [0 for _ in workers]
    arrived = dict.fromkeys(links, 0)
    waiting = dict.fromkeys(links, 0)  # gradients that are sent and not through yet
    left = {link: Fraction(0) for link in links}  # bits of the first of them
    while min(len(each) for each in begun) < iterations:
        computing = [worker for worker in workers if computed[worker] < len(begun[worker])]
        busy = [link for link in links if waiting[link] > 0]
        rates = progressive_filling(
            [links_bps] * len(busy),
            [[source, len(workers) + target] for source, target in busy],
            [*interfaces_bps, *interfaces_bps],
        )
        later = [begun[worker][-1] + compute_s[worker] for worker in computing]
        later += [now + left[link] / rate for link, rate in zip(busy, rates, strict=True)]
        until = min(later)
        for link, rate in zip(busy, rates, strict=True):
            left[link] -= rate * (until - now)
            if left[link] == 0:
                arrived[link] += 1
                waiting[link] -= 1
                left[link] = Fraction(bits)
        now = until
        for worker in computing:
            if begun[worker][-1] + compute_s[worker] == now:
                computed[worker] += 1
                for link in links:
                    if link[0] == worker:
                        waiting[link] += 1
                        if waiting[link] == 1:
                            left[link] = Fraction(bits)
        for worker in workers:
            newest = [arrived[peer, worker] for peer in workers if peer != worker]
            done = computed[worker] == len(begun[worker])
            if done and may_begin(computed[worker], newest):
                begun[worker].append(now)
    return [each[:iterations] for each in begun]

"""Sharing and carrying as the documentation states them, in clear loops and exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

Steps = Sequence[tuple[float, float]]
"""(start_s, value) pairs; the last value holds for ever."""


def progressive_filling(
    caps: Sequence[float], crossed: Sequence[Sequence[int]], capacities: Sequence[float]
) -> list[Fraction]:
    """Raise all rates by the same amount until something is full; what it holds back stays."""
    rates = [Fraction(0) for _ in caps]
    rising = set(range(len(caps)))
    while rising:
        rooms = [Fraction(caps[flow]) - rates[flow] for flow in rising]
        for interface, capacity in enumerate(capacities):
            through = [flow for flow in range(len(caps)) if interface in crossed[flow]]
            if rising & set(through):
                used = sum((rates[flow] for flow in through), Fraction(0))
                rooms.append((Fraction(capacity) - used) / len(rising & set(through)))
        step = min(rooms)
        for flow in rising:
            rates[flow] += step
        full = {
            interface
            for interface, capacity in enumerate(capacities)
            if sum(rates[flow] for flow in range(len(caps)) if interface in crossed[flow])
            == Fraction(capacity)
        }
        rising = {
            flow
            for flow in rising
            if rates[flow] < Fraction(caps[flow]) and not full & set(crossed[flow])
        }
    return rates


@dataclass(frozen=True)
class Send:
    """A message that a program sends at a time."""

    at_s: float
    source: int
    target: int
    size_bytes: float


@dataclass(frozen=True)
class Carrier:
    """A link: bandwidth over time, overhead and latency."""

    bandwidth: Steps
    overhead_s: float
    latency_s: float


def value_at(steps: Steps, at_s: Fraction) -> Fraction:
    """Value of a schedule."""
    return Fraction([value for start_s, value in steps if Fraction(start_s) <= at_s][-1])


@dataclass(frozen=True)
class Slow:
    """A node computes `factor` times slower between two times."""

    from_s: float
    to_s: float
    factor: float


def computed(speed: Steps, slow: Sequence[Slow], start_s: float, end_s: float) -> float:
    """Seconds at speed 1 that a core gets done between two times."""
    edges = {start_s, end_s, *(at_s for at_s, _ in speed)}
    edges |= {edge for one in slow for edge in (one.from_s, one.to_s)}
    inside = sorted(Fraction(edge) for edge in edges if start_s <= edge <= end_s)
    done = Fraction(0)
    for from_s, to_s in pairwise(inside):
        rate = value_at(speed, from_s)
        for one in slow:
            if Fraction(one.from_s) <= from_s < Fraction(one.to_s):
                rate /= Fraction(one.factor)
        done += rate * (to_s - from_s)
    return float(done)


def deliveries(
    sends: Sequence[Send],
    links: dict[tuple[int, int], Carrier],
    uplinks: dict[int, Steps],
    downlinks: dict[int, Steps],
) -> list[Fraction]:
    """When each message arrives; `sends` in the order in which they are made."""
    now = Fraction(0)
    delivered: list[Fraction | None] = [None] * len(sends)
    ready: dict[int, Fraction] = {}  # first in its link's queue: when its overhead is over
    left: dict[int, Fraction] = {}
    changes = sorted(
        {
            Fraction(start_s)
            for steps in [
                *(link.bandwidth for link in links.values()),
                *uplinks.values(),
                *downlinks.values(),
            ]
            for start_s, _ in steps
        }
    )
    while None in delivered:
        for pair, link in links.items():
            queue = [
                index
                for index, send in enumerate(sends)
                if (send.source, send.target) == pair
                and Fraction(send.at_s) <= now
                and delivered[index] is None
            ]
            if queue and queue[0] not in ready:
                ready[queue[0]] = now + Fraction(link.overhead_s)
                left[queue[0]] = Fraction(sends[queue[0]].size_bytes) * 8
        flowing = [index for index in ready if delivered[index] is None and ready[index] <= now]
        interfaces = [("up", node) for node in uplinks] + [("down", node) for node in downlinks]
        rates = progressive_filling(
            [
                float(value_at(links[sends[index].source, sends[index].target].bandwidth, now))
                for index in flowing
            ],
            [
                [
                    place
                    for place, (way, node) in enumerate(interfaces)
                    if node == (sends[index].source if way == "up" else sends[index].target)
                ]
                for index in flowing
            ],
            [
                float(value_at((uplinks if way == "up" else downlinks)[node], now))
                for way, node in interfaces
            ],
        )
        times = [time for time in changes if time > now]
        times += [Fraction(send.at_s) for send in sends if Fraction(send.at_s) > now]
        times += [time for index, time in ready.items() if time > now]
        times += [
            now + left[index] / rate
            for index, rate in zip(flowing, rates, strict=True)
            if rate > 0 or left[index] == 0
            for rate in [rate or Fraction(1)]
        ]
        later = min(times)
        for index, rate in zip(flowing, rates, strict=True):
            left[index] -= rate * (later - now)
            if left[index] == 0:
                send = sends[index]
                latency = Fraction(links[send.source, send.target].latency_s)
                delivered[index] = later + latency
        now = later
    return [time for time in delivered if time is not None]


def most_at_once(spans: Sequence[tuple[float, float]]) -> int:
    """How many spans (start, end) overlap at most, each pair of them; those that touch do not.

    A span of no length overlaps those that begin before and end after it, and no other.
    """
    most = 0
    for at, _ in spans:
        inside = [(start, end) for start, end in spans if start < at < end]
        beginning = [(start, end) for start, end in spans if start == at < end]
        instants = [(start, end) for start, end in spans if start == at == end]
        most = max(most, len(inside) + len(beginning), len(inside) + bool(instants))
    return most

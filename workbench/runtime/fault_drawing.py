"""Faults drawn from a seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from workbench.checks import check_number, check_whole
from workbench.clusters.cluster import check_cluster
from workbench.errors import UserError
from workbench.runtime.faults import Crash, Fault, LinkDown, Restart, SlowDown
from workbench.runtime.streams import Purpose, stream

if TYPE_CHECKING:
    import numpy as np

    from workbench.clusters import Cluster


MOST_FAULTS = 1_000_000


def draw_faults(
    seed: int,
    cluster: Cluster,
    *,
    until_s: float,
    crash_every_s: float | None = None,
    down_s: float = 60.0,
    slow_every_s: float | None = None,
    slow_s: float = 60.0,
    slow_factor: float = 2.0,
    link_down_every_s: float | None = None,
    link_down_s: float = 10.0,
) -> tuple[Fault, ...]:
    """Draw crashes, slow-downs and outages of links, at exponential intervals.

    Every node and every link has draws of its own, so a cluster that grows keeps the faults of
    the nodes and links that it had, as long as their indices stay.

    Parameters
    ----------
    until_s
        No fault begins later.
    crash_every_s, slow_every_s, link_down_every_s
        Mean seconds between the end of one fault of a node or link and the next; None for none.
    down_s, slow_s, link_down_s
        Mean seconds that one lasts.
    slow_factor
        How many times slower.

    Raises
    ------
    ValueError
        A time or factor that is not above 0, a seed that is no whole number, no cluster, or times
        so short that more than a million faults would be drawn.
    """
    number = check_whole("seed", seed, 0)
    check_cluster(cluster)
    every = {
        "crash_every_s": crash_every_s,
        "slow_every_s": slow_every_s,
        "link_down_every_s": link_down_every_s,
    }
    numbers = {"until_s": until_s, "down_s": down_s, "slow_s": slow_s, "slow_factor": slow_factor}
    numbers |= {"link_down_s": link_down_s}
    numbers |= {name: seconds for name, seconds in every.items() if seconds is not None}
    for name, above_0 in numbers.items():
        if not 0 < check_number(name, above_0) < math.inf:
            raise UserError(f"{name} is {above_0}; it must be above 0 and finite")
    _check_count(
        cluster,
        until_s,
        [
            (crash_every_s, down_s, len(cluster)),
            (slow_every_s, slow_s, len(cluster)),
            (link_down_every_s, link_down_s, len(cluster.links)),
        ],
    )
    faults: list[Fault] = []
    for node in range(len(cluster)):
        for from_s, to_s in _intervals(
            stream(number, Purpose.CRASHES, node), until_s, crash_every_s, down_s
        ):
            faults += [Crash(node, from_s), Restart(node, to_s)]
        for from_s, to_s in _intervals(
            stream(number, Purpose.SLOW_DOWNS, node), until_s, slow_every_s, slow_s
        ):
            faults.append(SlowDown(node, from_s, to_s, slow_factor))
    for pair in cluster.links:
        random = stream(number, Purpose.OUTAGES, *pair)
        for from_s, to_s in _intervals(random, until_s, link_down_every_s, link_down_s):
            faults.append(LinkDown(*pair, from_s, to_s))
    return tuple(faults)


def _check_count(
    cluster: Cluster, until_s: float, kinds: Sequence[tuple[float | None, float, int]]
) -> None:
    expected = sum(
        count * until_s / (every_s + length_s)
        for every_s, length_s, count in kinds
        if every_s is not None
    )
    if expected > MOST_FAULTS:
        raise UserError(
            f"about {expected:.3g} faults would be drawn for {len(cluster)} nodes and "
            f"{len(cluster.links)} links until {until_s:g} s; at most {MOST_FAULTS:,} are. Give a "
            "shorter until_s, or longer times between faults"
        )


def _intervals(
    random: np.random.Generator, until_s: float, every_s: float | None, length_s: float
) -> Iterator[tuple[float, float]]:
    if every_s is None:
        return
    at_s = float(random.exponential(every_s))
    while at_s < until_s:
        end_s = at_s + max(float(random.exponential(length_s)), 1e-9)
        yield at_s, end_s
        at_s = end_s + float(random.exponential(every_s))

"""What platforms tell each other, and what one may conclude from what it has heard.

A report takes as many exchanges as the way from its platform is long. Until it can have come, its
platform is not heard yet, which is no failure. Afterwards silence is, if one who hears the platform
directly has gone on without it: so it is not where the graph falls apart, and others are out of
hearing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from workbench.decentralised import GossipSetup, Mixing
from workbench.decentralised.hops import diameter, diameter_left
from workbench.edgegossip.costs.platforms import Platform
from workbench.edgegossip.prediction.predictor import Baseline, throughput


class Report(NamedTuple):
    """What a platform tells the others behind an epoch.

    Attributes
    ----------
    epoch
        Behind which it was made; 0 before the first.
    points
        That the platform holds.
    throughput
        p, samples per second.
    baseline
        What it knows of its t_0.
    """

    epoch: int
    points: int
    throughput: float
    baseline: Baseline


class Rates(NamedTuple):
    """What a platform goes by in an epoch, an entry for each of all.

    Attributes
    ----------
    points
        That it holds, as far as is known; none of one that has failed.
    throughput
        p; 0 of one that has failed.
    """

    points: tuple[int, ...]
    throughput: tuple[float, ...]


def rates(
    reports: Mapping[int, Report],
    shards: Sequence[int],
    platforms: Sequence[Platform],
    *,
    epoch: int,
    began: int,
    hops: int,
    mixing: Mixing | None = None,
) -> Rates:
    """Points and throughput of all platforms as one of them knows them before an epoch.

    Deviation: there is no central balancer that knows all. Who is not heard yet counts with its
    shard and with the throughput that it has alone, which all know beforehand; who is out of
    hearing, since the graph fell apart, with its last report.

    Parameters
    ----------
    reports
        The newest of each platform that was heard of.
    shards
        Points in each platform's shard.
    platforms
        All of them.
    epoch
        That is about to begin.
    began
        The first one since this platform began, or came back.
    hops
        Exchanges within which a report is everywhere. An older one is silence: its platform would
        have made another, and that would have come. It has failed if it is missed, see `missed`.
    mixing
        Who hears whom; None where all hear all.
    """
    points, found = [], []
    for node, (platform, shard) in enumerate(zip(platforms, shards, strict=True)):
        report = reports.get(node)
        silent = epoch >= began + hops if report is None else report.epoch < epoch - hops
        if silent and missed(node, reports, _hearers(node, len(shards), mixing)):
            points.append(0)
            found.append(0.0)
        elif report is None:
            points.append(shard)
            found.append(alone(platform))
        else:
            points.append(report.points)
            found.append(report.throughput)
    return Rates(tuple(points), tuple(found))


def missed(node: int, reports: Mapping[int, Report], hearers: Iterable[int]) -> bool:
    """Whether one who hears a node directly went on without hearing it.

    A hearer's report travels with all that it knew: without faults with the node's report of the
    epoch before, at the least. Behind a node that is gone everybody's last reports are just as old
    as their ways are long, so nobody there is missed.
    """
    last = reports[node].epoch if node in reports else -1
    return any(reports[one].epoch > last + 1 for one in hearers if one in reports)


def _hearers(node: int, count: int, mixing: Mixing | None) -> Iterable[int]:
    if mixing is None:
        return (one for one in range(count) if one != node)
    return mixing.targets(node)


def alone(platform: Platform) -> float:
    """Samples per second of a platform without contention: 1 / t_0."""
    return throughput([platform.predictor.start().seconds])


def hops_of(setup: GossipSetup, given: int | None = None) -> int:
    """Exchanges within which a report is everywhere; as given, if that is enough.

    By default the longest way between two nodes. Where something may get lost (`patience_s`), the
    longest that is left with any one node or link gone, and one more than the longest way at the
    least, since after a lost message the next comes. So one crash, or one faulty link that others
    go around, has nobody count as failed who is not. One that comes back may: see
    `workbench.edgegossip.programs.trainer`.
    """
    mixing = setup.mixing
    if mixing is None:
        raise ValueError(
            "EdgeGossip balances epoch by epoch, but with probability (GoSGD) no exchange is "
            "waited for, so reports may come late or never; give GossipSetup mixing instead, such "
            f"as mixing=decentralised.complete({setup.nodes})"
        )
    longest = diameter(mixing)
    if longest > setup.nodes:  # infinite
        raise ValueError(
            "some nodes never hear of each other by this mixing, so their platforms cannot be "
            f"balanced; give a connected graph, such as mixing=decentralised.ring({setup.nodes})"
        )
    if given is not None and given < longest:
        raise ValueError(
            f"hops is {given}, but news takes up to {longest:.0f} exchanges by this mixing, so "
            "platforms that work would count as failed; give as many, or leave hops out"
        )
    if given is not None:
        return given
    if setup.patience_s is not None:
        longest = max(longest + 1, diameter_left(mixing))
    return max(1, round(longest))

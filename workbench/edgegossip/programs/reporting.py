"""What platforms report to each other, and which have failed by what one has heard.

A report takes as many exchanges as its path has hops. Until it can have come, its platform is not
heard yet, which is no failure. Afterwards silence is one, if a node that hears the platform
directly has gone on without it; so it is not where the graph is partitioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from workbench.decentralised import Mixing
from workbench.decentralised.mixing import diameter, fault_diameter
from workbench.decentralised.setup import Gossip
from workbench.edgegossip.costs.platforms import Platform
from workbench.utils.checks import UserError


class Report(NamedTuple):
    """What a platform reports after an epoch."""

    epoch: int  # 0 before the first
    points: int  # that the platform holds
    throughput: float  # p, samples per second
    baseline_s: float  # its estimate of t_0


def rates(
    reports: Mapping[int, Report],
    shards: Sequence[int],
    platforms: Sequence[Platform],
    *,
    epoch: int,
    began: int,
    hops: int,
    mixing: Mixing | None = None,
) -> tuple[list[int], list[float]]:
    """Points and throughput p of all platforms as one of them knows them before `epoch`.

    Both are 0 of a platform that has failed. A report older than `hops` exchanges, within which it
    would be everywhere, is silence; a silent platform has failed if it is `missed`. `began` is the
    first epoch since this platform (re)started, `mixing` says who hears whom; None: all hear all.

    Deviation: there is no central balancer that knows all. A platform not heard yet counts with its
    shard and its throughput without contention, which all know beforehand; one out of hearing,
    since the graph is partitioned, with its last report.
    """
    points, throughput = [], []
    for node, (platform, shard) in enumerate(zip(platforms, shards, strict=True)):
        report = reports.get(node)
        silent = epoch >= began + hops if report is None else report.epoch < epoch - hops
        hearers = range(len(shards)) if mixing is None else mixing.targets(node)
        if silent and missed(node, reports, hearers):
            points.append(0)
            throughput.append(0.0)
        elif report is None:
            points.append(shard)
            throughput.append(platform.alone)
        else:
            points.append(report.points)
            throughput.append(report.throughput)
    return points, throughput


def missed(node: int, reports: Mapping[int, Report], hearers: Iterable[int]) -> bool:
    """Whether one who hears a node directly went on without hearing it.

    A hearer's report travels with all that it knew: without faults, with the node's report of the
    epoch before at the least. Behind a node that is gone everybody's last reports are as old as
    their paths are long, so nobody there is missed.
    """
    last = reports[node].epoch if node in reports else -1
    return any(reports[other].epoch > last + 1 for other in hearers if other in reports)


def hops_of(setup: Gossip, hops: int | None = None) -> int:
    """Exchanges within which a report is everywhere; `hops`, if that is enough.

    By default the diameter. Where something may get lost (`patience_s`), the fault diameter, and at
    least one more than the diameter, since after a lost message the next comes. So one crash, or
    one faulty link with a detour, makes no working platform count as failed; a restarted one may
    (see `workbench.edgegossip.programs.trainer`).
    """
    mixing = setup.mixing
    if mixing is None:
        raise UserError(
            "EdgeGossip balances epoch by epoch, but with probability (GoSGD) no exchange is "
            "waited for, so reports may come late or never; give the setup mixing instead, such "
            f"as mixing=decentralised.complete({setup.nodes})"
        )
    longest = diameter(mixing)
    if longest > setup.nodes:  # infinite
        raise UserError(
            "some nodes never hear of each other by this mixing, so their platforms cannot be "
            f"balanced; give a connected graph, such as mixing=decentralised.ring({setup.nodes})"
        )
    if hops is not None and hops < longest:
        raise UserError(
            f"hops is {hops}, but news takes up to {longest:.0f} exchanges by this mixing, so "
            "platforms that work would count as failed; give as many, or leave hops out"
        )
    if hops is not None:
        return hops
    if setup.patience_s is not None:
        longest = max(longest + 1, fault_diameter(mixing))
    return max(1, round(longest))

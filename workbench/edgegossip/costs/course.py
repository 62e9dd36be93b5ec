"""How long epochs take, without learning: who waits for whom (Han et al. 2021, Secs. 2.1, 3.3).

In an epoch a platform ranks by the losses of aggregated points, learns from a share of its points,
sends the model to its peers, and waits for theirs: all others, or the nearest on a ring. The
balancer sets the shares from predicted throughputs, as reports have brought them by then. The times
equal those of a simulated training where every platform has points of all classes, and at least as
many aggregated ones; what is taken over from failed platforms is aggregated in proportional time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from workbench.decentralised.topologies import complete, nearest
from workbench.edgegossip.algorithms.balancer import (
    FAILED_SHARE,
    THRESHOLD,
    Balance,
    balance,
    ranking_share,
)
from workbench.edgegossip.algorithms.effects import quota
from workbench.edgegossip.costs.platforms import Platform
from workbench.utils.checks import check_whole


class Epoch(NamedTuple):
    """A platform's epoch, in virtual seconds."""

    epoch: int  # from 1
    node: int
    ratio: float  # share of its points that it learns from
    samples: int
    start_s: float  # all models of the epoch before are there
    select_s: float  # aggregating and ranking
    learn_s: float
    end_s: float  # all models of this epoch are there

    @property
    def wait_s(self) -> float:
        """Seconds between its own learning and the end."""
        return self.end_s - self.start_s - self.select_s - self.learn_s


@dataclass(frozen=True)
class Aggregating:
    """What EdgeGossip adds to plain gossip; the fields are as for `EdgeGossip`."""

    ratio: float = 10.0
    generation_s: tuple[float, ...] = ()  # of aggregating on each platform, at speed 1
    forward_share: float = 1 / 3
    window_s: float = 60.0  # over which contention is averaged
    balancer: str = "with_ranking"
    threshold: float = THRESHOLD
    failed_share: float = FAILED_SHARE
    on_failures: str = "reassign"

    @property
    def ranking_share(self) -> float:
        """What the balancer takes ranking for, over learning from all points."""
        return ranking_share(self.balancer, self.forward_share, self.ratio)


def course(
    platforms: Sequence[Platform],
    points: Sequence[int],
    epochs: int,
    exchange_s: float,
    aggregating: Aggregating | None = None,
    *,
    peers: int | None = None,
) -> list[Epoch]:
    """Epochs of a training, by epoch, then by platform.

    `exchange_s` is how long a platform's model takes to its peers: the `peers` nearest on a ring,
    None for all. It is sent at the end of learning, or when the one before is there. Without
    `aggregating` it is plain gossip, learning from all points.
    """
    number, count = check_whole("epochs", epochs, 1), len(platforms)
    generation_s = aggregating.generation_s if aggregating else ()
    graph = complete(count) if peers is None else nearest(count, peers)
    near = [sorted(graph[i]) for i in range(count)]
    news = _News(near, direct=all(len(each) == count - 1 for each in near))
    baselines_s = [platform.baseline_s for platform in platforms]
    if aggregating is not None:
        window_s = aggregating.window_s
        news.first(
            [
                platform.throughput(baseline_s, 0.0, window_s)
                for platform, baseline_s in zip(platforms, baselines_s, strict=True)
            ]
        )
    gone: list[tuple[bool, ...]] = [()] * count  # who had failed when each aggregated its points
    # Of each epoch and platform: end of learning, and when its peers have the model.
    done: list[dict[int, tuple[float, float]]] = [{} for _ in range(number + 1)]
    begun, rows = dict[tuple[int, int], Epoch](), list[Epoch]()
    events: list[tuple[float, int, int, int]] = []  # heap: when, what, platform, epoch

    def begin(i: int, epoch: int, start_s: float) -> None:
        platform, ratio, samples, select_s = platforms[i], 1.0, points[i], 0.0
        if aggregating is not None:
            heard = news.read(i, start_s)
            rates = [heard.get(j, (0, other.alone))[1] for j, other in enumerate(platforms)]
            balanced = balance(
                Balance(points, rates),
                aggregating.threshold,
                aggregating.failed_share,
                aggregating.on_failures,
                ranking_share=aggregating.ranking_share,
                taking_over=[other.alone for other in platforms],
            )
            ratio, held, cost_s = balanced.ratios[i], balanced.points[i], 0.0
            samples = quota(held, ratio)
            if ratio:
                aggregated = int(held / aggregating.ratio)
                cost_s = platform.sample_s * aggregating.forward_share * aggregated
                if generation_s and gone[i] != balanced.failed:
                    cost_s += generation_s[i] * (held / points[i])
                gone[i] = balanced.failed
            select_s = platform.speed.seconds_for(cost_s, start_s)
        learn_s = platform.speed.seconds_for(samples * platform.sample_s, start_s + select_s)
        begun[i, epoch] = Epoch(epoch, i, ratio, samples, start_s, select_s, learn_s, math.nan)
        heappush(events, (start_s + select_s + learn_s, _LEARNT, i, epoch))

    for i in range(count):
        begin(i, 1, 0.0)
    while events:
        now_s, what, i, epoch = heappop(events)
        if what == _ENDED:
            begin(i, epoch + 1, now_s)
            continue
        # First in, first out.
        done[epoch][i] = now_s, max(now_s, *done[epoch - 1].get(i, (0.0,))) + exchange_s
        if aggregating is not None:
            row, platform = begun[i, epoch], platforms[i]
            baselines_s[i] = platform.observe(baselines_s[i], row.samples, row.learn_s, now_s)
            rate = platform.throughput(baselines_s[i], now_s, aggregating.window_s)
            news.send(i, epoch, rate, now_s, done[epoch][i][1])
        for j in (i, *near[i]):
            if any(at not in done[epoch] for at in (j, *near[j])):
                continue
            end_s = max(done[epoch][j][0], *(done[epoch][peer][1] for peer in near[j]), 0.0)
            rows.append(begun.pop((j, epoch))._replace(end_s=end_s))
            if epoch < number:
                heappush(events, (end_s, _ENDED, j, epoch))
    return sorted(rows)


_LEARNT, _ENDED = 0, 1  # in this order, where both are at once


class _News:
    """Reports of throughput as they spread: each message carries all that its sender has heard."""

    def __init__(self, near: Sequence[Sequence[int]], *, direct: bool) -> None:
        self.near = near
        self.direct = direct  # all hear all: what else a message carries is never newer
        self.heard: list[dict[int, tuple[int, float]]] = [{} for _ in near]
        self._mail: list[list[tuple[float, dict[int, tuple[int, float]]]]] = [[] for _ in near]

    def first(self, rates: Sequence[float]) -> None:
        """Exchange reports once before the first epoch."""
        self.heard = [{j: (0, rates[j]) for j in (i, *near)} for i, near in enumerate(self.near)]

    def send(self, i: int, epoch: int, rate: float, now_s: float, arrives_s: float) -> None:
        """Send what is known after an epoch; to be called in order of time."""
        self.read(i, now_s)
        self.heard[i][i] = epoch, rate
        carried = {i: (epoch, rate)} if self.direct else dict(self.heard[i])
        for peer in self.near[i]:
            self._mail[peer].append((arrives_s, carried))

    def read(self, i: int, now_s: float) -> dict[int, tuple[int, float]]:
        """Take in what has arrived, and return all that is known."""
        mail, heard = self._mail[i], self.heard[i]
        self._mail[i] = [message for message in mail if message[0] > now_s]
        for arrives_s, carried in mail:
            if arrives_s > now_s:
                continue
            for node, report in carried.items():
                if node != i and report[0] >= heard.get(node, report)[0]:
                    heard[node] = report
        return heard


def total_s(epochs: Sequence[Epoch]) -> float:
    """Seconds until the last platform has finished the last epoch."""
    return max(row.end_s for row in epochs)


def selecting_share(epochs: Sequence[Epoch], *, waiting: bool = True) -> float:
    """Share of the time that goes into ranking, from the second epoch on (Sec. 4.3, Fig. 8).

    The time is all of an epoch, or with `waiting` False ranking and learning alone.
    """
    later = [row for row in epochs if row.epoch > 1] or list(epochs)
    select_s = sum(row.select_s for row in later)
    if waiting:
        return select_s / sum(row.end_s - row.start_s for row in later)
    return select_s / (select_s + sum(row.learn_s for row in later))

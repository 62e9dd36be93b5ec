"""Times of epochs, without learning: who waits for whom (Han et al. 2021, Secs. 2.1, 3.3).

In an epoch a platform ranks by the losses of aggregated points, learns from a share of its points,
sends the model to its peers, and waits for theirs: all others, or the nearest on a ring. Before the
next, all report their throughput to the balancer, which then sets the shares. The times equal those
of a simulated training where every platform has points of all ten classes, and at least as many
aggregated ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from workbench.decentralised.topologies import complete, nearest
from workbench.edgegossip.algorithms.effects import quota
from workbench.edgegossip.costs.platforms import Platform
from workbench.edgegossip.programs.trainer import EdgeGossip
from workbench.utils.checks import check_whole


class Epoch(NamedTuple):
    """A platform's epoch, in virtual seconds."""

    epoch: int  # from 1
    node: int
    ratio: float  # share of its points that it learns from
    samples: int
    start_s: float  # all models of the epoch before are there, and the balancer has answered
    select_s: float  # aggregating and ranking
    learn_s: float
    end_s: float  # all models of this epoch are there

    @property
    def wait_s(self) -> float:
        """Seconds between its own learning and the end."""
        return self.end_s - self.start_s - self.select_s - self.learn_s


def course(
    platforms: Sequence[Platform],
    points: Sequence[int],
    epochs: int,
    exchange_s: float,
    how: EdgeGossip | None = None,
    *,
    peers: int | None = None,
    batch_size: int = 1,
) -> list[Epoch]:
    """Epochs of a training, by epoch, then by platform.

    `exchange_s` is how long a platform's model takes to its peers: the `peers` nearest on a ring,
    None for all. It is sent at the end of learning, or when the one before is there. Without `how`
    it is plain gossip, learning from all points. Platforms learn from whole batches.
    """
    number, count = check_whole("epochs", epochs, 1), len(platforms)
    graph = complete(count) if peers is None else nearest(count, peers)
    near = [sorted(graph[i]) for i in range(count)]
    baselines_s = [platform.baseline_s for platform in platforms]
    gone: list[tuple[bool, ...]] = [()] * count  # who had failed when each aggregated its points
    ready_s, arrived_s = [0.0] * count, [0.0] * count  # of models at their peers, of the last epoch
    rows: list[Epoch] = []
    for epoch in range(1, number + 1):
        start_s, ratios, held = ready_s, (1.0,) * count, tuple(points)
        if how is not None:
            rates = [
                platform.throughput(baseline_s, at_s, how.window_s)
                for platform, baseline_s, at_s in zip(platforms, baselines_s, ready_s, strict=True)
            ]
            balanced = how.decide(points, rates, platforms)
            ratios, held = balanced.ratios, balanced.points
            start_s = [max(ready_s)] * count  # reports and the decision queue behind no other model
        done_s = []
        for i, platform in enumerate(platforms):
            batches = math.ceil(quota(held[i], ratios[i]) / batch_size)
            select_s, samples = 0.0, min(held[i], batches * batch_size)
            if how is not None and ratios[i]:
                cost_s = platform.sample_s * how.forward_share * int(held[i] / how.points_per_loss)
                if gone[i] != balanced.failed:
                    cost_s += how.aggregating_s(held[i])
                gone[i] = balanced.failed
                select_s = platform.speed.seconds_for(cost_s, start_s[i])
            began_s = start_s[i] + select_s
            learn_s = platform.speed.seconds_for(samples * platform.sample_s, began_s)
            done_s.append(began_s + learn_s)
            if how is not None:
                baselines_s[i] = platform.observe(baselines_s[i], samples, learn_s, done_s[i])
            rows.append(Epoch(epoch, i, ratios[i], samples, start_s[i], select_s, learn_s, 0.0))
        # First in, first out.
        arrived_s = [
            max(ends) + exchange_s if near[i] else ends[0]
            for i, ends in enumerate(zip(done_s, arrived_s, strict=True))
        ]
        ready_s = [
            max(done_s[i], *(arrived_s[peer] for peer in near[i]), 0.0) for i in range(count)
        ]
        rows[-count:] = [
            row._replace(end_s=end_s) for row, end_s in zip(rows[-count:], ready_s, strict=True)
        ]
    return rows


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

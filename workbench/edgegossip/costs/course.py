"""How long epochs take, without learning: who waits for whom (Han et al. 2021, Secs. 2.1, 3.3).

In an epoch a platform ranks by the losses of aggregated points, learns from a share of its points,
sends the model to all others, and waits for theirs. The slowest decides; EdgeGossip's balancer sets
the shares from predicted throughputs. The times equal those of a simulated training on a complete
graph where every platform has at least as many aggregated points as classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from workbench.checks import check_number, whole
from workbench.edgegossip.aggregation.aggregation import check_ratio
from workbench.edgegossip.algorithms.balancer import Balance, balance
from workbench.edgegossip.algorithms.quota import quota
from workbench.edgegossip.costs.platforms import Platform

if TYPE_CHECKING:
    import polars as pl


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", check_ratio(self.ratio))
        counted = {"forward_share": self.forward_share, "window_s": self.window_s}
        counted |= {f"generation_s[{at}]": one for at, one in enumerate(self.generation_s)}
        for name, value in counted.items():
            if not 0 <= check_number(name, value) < math.inf:
                raise ValueError(f"{name} is {value}; give a finite number of at least 0")


def course(
    platforms: Sequence[Platform],
    points: Sequence[int],
    epochs: int,
    exchange_s: float,
    aggregating: Aggregating | None = None,
) -> list[Epoch]:
    """Epochs of a training, by epoch, then by platform.

    `exchange_s` is the time from a platform's end of learning until all others have its model; none
    waits for its own. Without `aggregating` it is plain gossip, learning from all points.
    """
    number = whole(epochs)
    if number is None or number < 1:
        raise ValueError(f"epochs is {epochs!r}; give a whole number of at least 1")
    count = len(platforms)
    generation_s = aggregating.generation_s if aggregating else ()
    if not count or len(points) != count or len(generation_s) not in (0, count):
        raise ValueError(
            f"{count} platforms, {len(points)} numbers of points, {len(generation_s)} seconds of "
            "aggregating; give at least one platform, and one of each for each"
        )
    nodes = range(count)
    speeds = [one.speed for one in platforms]
    known = [one.predictor.start() for one in platforms]
    start_s, finish_s = [0.0] * count, [0.0] * count
    rows: list[Epoch] = []
    for epoch in range(1, number + 1):
        ratios, samples = [1.0] * count, list(points)
        if aggregating is not None:
            rates = [
                one.throughput(known[i], finish_s[i], aggregating.window_s)
                for i, one in enumerate(platforms)
            ]
            ratios = list(balance(Balance(points, rates)).ratios)
            samples = [quota(n, r) for n, r in zip(points, ratios, strict=True)]
        select_s, learn_s = [0.0] * count, [0.0] * count
        for i, one in enumerate(platforms):
            if aggregating is not None:
                cost_s = one.sample_s * aggregating.forward_share
                cost_s *= int(points[i] / aggregating.ratio)
                if epoch == 1 and generation_s:
                    cost_s += generation_s[i]
                select_s[i] = speeds[i].seconds_for(cost_s, start_s[i])
            began_s = start_s[i] + select_s[i]
            learn_s[i] = speeds[i].seconds_for(samples[i] * one.sample_s, began_s)
            finish_s[i] = began_s + learn_s[i]
            known[i] = one.observe(known[i], samples[i], learn_s[i], finish_s[i])
        arrived_s = [finish + exchange_s for finish in finish_s]
        end_s = [max([finish_s[i], *(arrived_s[j] for j in nodes if j != i)]) for i in nodes]
        rows += [
            Epoch(epoch, i, ratios[i], samples[i], start_s[i], select_s[i], learn_s[i], end_s[i])
            for i in nodes
        ]
        start_s = end_s
    return rows


def total_s(epochs: Sequence[Epoch]) -> float:
    """Seconds until the last platform has finished the last epoch."""
    return max(one.end_s for one in epochs)


def selecting_share(epochs: Sequence[Epoch], *, waiting: bool = True) -> float:
    """Share of the time that goes into ranking, from the second epoch on (Sec. 4.3, Fig. 8).

    The time is all of an epoch, or with `waiting` False ranking and learning alone.
    """
    later = [one for one in epochs if one.epoch > 1] or list(epochs)
    select_s = sum(one.select_s for one in later)
    if waiting:
        return select_s / sum(one.end_s - one.start_s for one in later)
    return select_s / (select_s + sum(one.learn_s for one in later))


def frame(epochs: Sequence[Epoch]) -> pl.DataFrame:
    """A row for each epoch of each platform: the fields of `Epoch`, and ``wait_s``."""
    import polars as pl

    return pl.DataFrame([one._asdict() | {"wait_s": one.wait_s} for one in epochs])

"""How long epochs take, without learning: who waits for whom (Han et al. 2021, Secs. 2.1, 3.3).

An epoch of a platform: rank by the losses of aggregated points, learn from a share of its points,
send the model to all others, wait for theirs. The slowest decides; EdgeGossip's balancer sets the
shares from predicted throughputs. The same arithmetic as a simulated training on a complete graph,
whose times it equals where every platform has at least as many aggregated points as classes.
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
    """A platform's epoch, in virtual seconds.

    Attributes
    ----------
    epoch, node
        From 1, and whose.
    ratio, samples
        Share of its points that it learns from, and how many those are.
    start_s
        When it began: all models of the epoch before were there.
    select_s, learn_s
        What aggregating and ranking took, and learning.
    end_s
        When all models of this epoch were there.
    """

    epoch: int
    node: int
    ratio: float
    samples: int
    start_s: float
    select_s: float
    learn_s: float
    end_s: float

    @property
    def wait_s(self) -> float:
        """Seconds between its own learning and the end: others' learning, and transfers."""
        return self.end_s - self.start_s - self.select_s - self.learn_s


@dataclass(frozen=True)
class Aggregating:
    """What EdgeGossip adds to plain gossip; see `workbench.edgegossip.programs.trainer.EdgeGossip`.

    Attributes
    ----------
    ratio
        Points for each aggregated one.
    generation_s
        Seconds at speed 1 of aggregating, on each platform, once; a platform that is slower than
        its kind takes so many times as long.
    forward_share
        Seconds of evaluating a point over those of learning from it.
    window_s
        Over which contention is averaged.
    """

    ratio: float = 10.0
    generation_s: tuple[float, ...] = ()
    forward_share: float = 1 / 3
    window_s: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", check_ratio(self.ratio))
        counted = {"forward_share": self.forward_share, "window_s": self.window_s}
        counted |= {f"generation_s[{at}]": one for at, one in enumerate(self.generation_s)}
        for name, given in counted.items():
            if not 0 <= check_number(name, given) < math.inf:
                raise ValueError(f"{name} is {given}; give a finite number of at least 0")


def course(
    platforms: Sequence[Platform],
    points: Sequence[int],
    epochs: int,
    exchange_s: float,
    aggregating: Aggregating | None = None,
) -> list[Epoch]:
    """Follow a training, epoch after epoch.

    Parameters
    ----------
    platforms
        Who learns.
    points
        That each holds.
    epochs
        How many.
    exchange_s
        From a platform's end of learning until all others have its model; none waits for its own.
    aggregating
        With EdgeGossip; None is plain gossip, in which each learns from all its points.

    Returns
    -------
    list of Epoch
        By epoch, then by platform.
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

    Parameters
    ----------
    epochs
        Of the platforms that count.
    waiting
        Whether the time is all of an epoch, or only that at work: ranking and learning.
    """
    later = [one for one in epochs if one.epoch > 1] or list(epochs)
    select_s = sum(one.select_s for one in later)
    if waiting:
        return select_s / sum(one.end_s - one.start_s for one in later)
    return select_s / (select_s + sum(one.learn_s for one in later))


def frame(epochs: Sequence[Epoch]) -> pl.DataFrame:
    """Return a row for each epoch of each platform: the fields of `Epoch`, and ``wait_s``."""
    import polars as pl

    return pl.DataFrame([one._asdict() | {"wait_s": one.wait_s} for one in epochs])

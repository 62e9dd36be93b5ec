"""Policies for too many failed platforms (Han et al. 2021, Alg. 1, line 11).

The paper says only that the training of failed platforms can be executed elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.utils.rounding import in_proportion


class TooManyFailedError(RuntimeError):
    """More platforms have failed than the balancer may go on without."""


@dataclass(frozen=True)
class Handover:
    """Points that one platform takes over from a failed one.

    Platforms are numbered; the points are those from `first` to before `stop` in the shard of
    `source`.
    """

    source: int
    target: int
    first: int
    stop: int


Outcome = tuple[tuple[int, ...], tuple[Handover, ...]]
Policy = Callable[[Sequence[int], Sequence[float], Sequence[bool]], Outcome]
"""Points, throughput and failure of each platform -> points after handing over, and handovers."""


def stop(points: Sequence[int], throughput: Sequence[float], failed: Sequence[bool]) -> Outcome:
    """Halt the training, and name the failed platforms."""
    listed = ", ".join(
        f"{platform} ({throughput[platform]:g} points/s, {points[platform]} points)"
        for platform, gone in enumerate(failed)
        if gone
    )
    raise TooManyFailedError(
        f"{sum(failed)} of {len(failed)} platforms have failed, more than allowed: {listed}. Allow "
        "more by failed_share, or let the others take over their points by on_failures='reassign'"
    )


def reassign(points: Sequence[int], throughput: Sequence[float], failed: Sequence[bool]) -> Outcome:
    """Hand the points of each failed platform to the others, in proportion to their throughput.

    Each shard is cut in the order of the platforms.
    """
    survivors = [platform for platform, gone in enumerate(failed) if not gone]
    if not survivors:
        raise TooManyFailedError(
            f"all {len(failed)} platforms have failed; there is nobody to take over their points"
        )
    after, handovers = list(points), []
    rates = [throughput[platform] for platform in survivors]
    for source in (platform for platform, gone in enumerate(failed) if gone):
        first = 0
        for target, count in zip(survivors, in_proportion(points[source], rates), strict=True):
            if count:
                handovers.append(Handover(source, target, first, first + count))
            after[target] += count
            first += count
        after[source] = 0
    return tuple(after), tuple(handovers)


POLICIES: dict[str, Policy] = {"stop": stop, "reassign": reassign}


def held_after(
    shards: Sequence[NDArray[np.int64]], node: int, handovers: Sequence[Handover]
) -> NDArray[np.int64]:
    """Points that a platform holds: its own shard, then what it takes over of others'."""
    taken = [
        shards[each.source][each.first : each.stop] for each in handovers if each.target == node
    ]
    return np.concatenate([shards[node], *taken])

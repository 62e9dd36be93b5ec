"""Local batch sizes by what each worker computes in the same time (Hong & Chandra 2021, Sec. 3.2).

A worker times a few batch sizes, regresses seconds on size, and tells the others how many samples
it computes in a second, its relative computation power.

Deviation: the paper's power is the largest batch that is done within a unit of time, which it does
not state. A line a + b x through times gives (unit - a) / b. Where the fixed part `a` is the same
everywhere, ratios are those of 1 / b whatever the unit, and so this takes 1 / b: a unit below `a`
would say nothing.

Deviation: Eq. 5 leaves a slow worker without samples where its share rounds to none. Here each has
at least one, and so a gradient to send.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import fmean

from workbench.utils.checks import UserError, check_number, check_whole, listed
from workbench.utils.rounding import in_proportion

NOISE = 1e-9
"""Share of the seconds that is timing noise."""


def relative_power(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Samples a second, by the slope of a line through timed batches.

    Where a larger batch took no longer, those of the largest batch in the longest time.
    """
    for one in listed("sizes", sizes, "give batch sizes, such as (4, 8, 16)"):
        check_whole("sizes", one, 1)
    for at_s in listed("seconds", seconds, "give one a batch"):
        check_number("seconds", at_s)
    if len(set(sizes)) < 2 or len(sizes) != len(seconds):
        raise UserError(
            f"{len(seconds)} times of the batch sizes {list(sizes)}; give a time for each of at "
            "least two different sizes"
        )
    if not (all(0 <= value < math.inf for value in seconds) and max(seconds) > 0):
        raise UserError(f"seconds are {list(seconds)}; batches take some, not below 0 and finite")
    mean_size, mean_s = fmean(sizes), fmean(seconds)
    off = [size - mean_size for size in sizes]
    slope_s = sum(
        difference * (each_s - mean_s) for difference, each_s in zip(off, seconds, strict=True)
    )
    slope_s /= sum(difference * difference for difference in off)
    if slope_s * max(sizes) <= NOISE * max(seconds):  # a larger batch took no longer
        return max(sizes) / max(seconds)
    return 1 / slope_s


def local_batch_sizes(global_batch: int, power: Sequence[float]) -> tuple[int, ...]:
    """Share a global batch out in proportion to power, in whole samples, at least one each (Eq. 5).

    Rounded by largest remainders, of equal ones the first, so that the sizes sum to the batch.
    """
    shares = [check_number("power", share) for share in listed("power", power, "give one a worker")]
    if not shares or not all(0 < share < math.inf for share in shares):
        raise UserError(f"power is {list(power)}; give each worker's, above 0 and finite")
    batch = check_whole("global_batch", global_batch, 1)
    if batch < len(shares):
        raise UserError(
            f"a global batch of {batch} samples for {len(shares)} workers; each needs at least one"
        )
    return _shared_out(batch, tuple(shares))


@lru_cache  # all workers share a batch out by the same power, iteration after iteration
def _shared_out(batch: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    return tuple(in_proportion(batch, shares, least=1))


def own_batch_size(global_batch: int, power: Mapping[int, float], node: int) -> int:
    """Batch size of a worker, where `power` has all alive workers."""
    nodes = sorted(power)
    sizes = local_batch_sizes(global_batch, [power[other] for other in nodes])
    return sizes[nodes.index(node)]

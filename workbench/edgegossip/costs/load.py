"""Load of a platform over time: co-running jobs one after the other, with pauses.

Han et al. (2021, Sec. 4.2) let WordCount and Sort run beside the training, on inputs of 1 MB to 10
GB; when, for how long and with what effect is not stated. `data/testbeds` holds what is assumed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.checks import check_number
from workbench.clusters import Schedule
from workbench.edgegossip.prediction.contention import Contention
from workbench.edgegossip.prediction.predictor import Predictor
from workbench.errors import UserError
from workbench.training.repeatable import LOAD

WORKLOADS = ("wordcount", "sort")


@dataclass(frozen=True)
class Load:
    """Contention over time, constant from one start to the next.

    Parameters
    ----------
    starts_s
        When each contention begins: 0 first, ascending.
    contentions
        As many; the last one holds for ever.

    Raises
    ------
    ValueError
        Unequal lengths, none at all, starts that are not in order.
    """

    starts_s: tuple[float, ...] = (0.0,)
    contentions: tuple[Contention, ...] = (Contention(),)

    def __post_init__(self) -> None:
        if len(self.starts_s) != len(self.contentions):
            raise UserError(
                f"{len(self.starts_s)} starts for {len(self.contentions)} contentions; "
                "give each contention its start"
            )
        Schedule(self.starts_s, (1.0,) * len(self.starts_s))  # refuses unordered starts

    def mean(self, from_s: float, to_s: float) -> Contention:
        """Contention averaged from `from_s` to `to_s`; that at `to_s` if they are equal."""
        last = bisect_right(self.starts_s, to_s) - 1
        first = bisect_right(self.starts_s, max(from_s, 0.0)) - 1
        if first >= last:
            return self.contentions[last]
        edges_s = [max(from_s, 0.0), *self.starts_s[first + 1 : last + 1], to_s]
        weights = np.diff(edges_s)[:, None]
        # What np.average gives, whose checks take several times as long.
        means = (self.uses[first : last + 1] * weights).sum(axis=0) / weights.sum(axis=0)
        return Contention(*map(float, means))

    @cached_property
    def uses(self) -> NDArray[np.float64]:
        """Core, network and disk of each contention, (K, 3)."""
        return np.array(
            [(one.core, one.network_bytes_per_s, one.disk_bytes_per_s) for one in self.contentions]
        )

    def speed(self, predictor: Predictor, factor: float = 1.0) -> Schedule:
        """Speed of a platform under this load by a predictor, times `factor`."""
        return Schedule(self.starts_s, tuple((factor / predictor.slowdowns(self.uses)).tolist()))


def draw_load(
    seed: int, platform: int, facts: Mapping[str, Any], until_s: float, intensity: float = 1.0
) -> Load:
    """Draw the jobs of a platform: WordCount or Sort, sizes log-uniform, pauses exponential.

    `facts` are the testbed's ``co_runners``: sizes, pauses, and what each job uses by its size. No
    job begins after `until_s`. `intensity` is a factor on all that jobs use, of cores no more than
    all. Each platform has draws of its own, so a deployment that grows keeps those it had.
    """
    if not 0 <= check_number("intensity", intensity) < math.inf:
        raise UserError(f"intensity is {intensity}; give a finite number, at least 0")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(LOAD, platform)))
    low, high = math.log10(facts["least_bytes"]), math.log10(facts["most_bytes"])
    starts_s, contentions, at_s = [0.0], [Contention()], 0.0
    while intensity:
        at_s += float(rng.exponential(facts["pause_s"])) + 1e-6
        job, size = WORKLOADS[int(rng.integers(len(WORKLOADS)))], float(rng.uniform(low, high))
        jitter = rng.uniform(1 - facts["jitter"], 1 + facts["jitter"], 3)
        if at_s >= until_s:
            break
        uses = [
            intensity * float(factor) * _between(facts[job][name], (size - low) / (high - low))
            for name, factor in zip(
                ("core", "network_bytes_per_s", "disk_bytes_per_s"), jitter, strict=True
            )
        ]
        end_s = at_s + facts["start_up_s"] + 10**size / facts["bytes_per_s"]
        starts_s += [at_s, end_s]
        contentions += [Contention(min(uses[0], 1.0), uses[1], uses[2]), Contention()]
        at_s = end_s
    return Load(tuple(starts_s), tuple(contentions))


def _between(ends: Sequence[float], share: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * share

"""Greedy packings at once, then rounds of a beam search that widens; ends at the bound."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, takewhile

import numpy as np

from workbench.memory.packing.buffers import Buffers, Effort, Ints
from workbench.memory.packing.columns import Columns, columns_of
from workbench.memory.packing.greedy import best_fit, place_in_order
from workbench.memory.packing.skyline import Guide, search

STEEPNESS = 1700.0
COST_OFFSETS = (0.0, 1.0)
"""The first finds packings without waste, the second is better where some is inevitable."""
NARROWEST, WIDEST = 8, 64
CELLS = 8192
"""Buffers times packings of the first rounds, within these widths: fewer save hardly any time."""
MOST_CELLS = 2**23
"""The width stays below, so that the search stays below a gigabyte."""
GROWTH = 1.4
"""Of the width, once all cost offsets have had a round."""
NOISE = 0.5
"""Spread of the logarithm of what a buffer's area counts for, after the first width."""


def workbench(buffers: Buffers, effort: Effort) -> Ints:
    """Local search over placements; more rounds, or more time, never make it worse."""
    deadline_s = effort.deadline_s()
    columns = columns_of(buffers)
    best, best_peak = np.zeros(0, np.int64), 0
    for offsets in _greedy(buffers, columns, effort):
        peak = int((offsets + buffers.size).max())
        if not len(best) or peak < best_peak:
            best, best_peak = offsets, peak
        if best_peak == columns.bound or time.perf_counter() > deadline_s:
            return best
    for guide, width in _rounds(columns, effort):
        offsets_below = search(columns, guide, width, best_peak, deadline_s)
        if offsets_below is not None:
            best = offsets_below
            best_peak = int((best + buffers.size).max())
        if best_peak == columns.bound or time.perf_counter() > deadline_s:
            break
    return best


def _greedy(buffers: Buffers, columns: Columns, effort: Effort) -> Iterator[Ints]:
    """Packings at once, the fastest first; each is best for some buffers."""
    yield best_fit(buffers, effort)
    length = columns.last + 1 - columns.first
    yield place_in_order(buffers, np.lexsort((-length, -columns.size)))
    yield place_in_order(buffers, np.argsort(-columns.size * length, kind="stable"))
    yield place_in_order(buffers, np.lexsort((-columns.size, -length)))


def _rounds(columns: Columns, effort: Effort) -> Iterator[tuple[Guide, int]]:
    """Guides of the search with its width: all guides at a width, then a larger width."""
    area = columns.size * (columns.last + 1.0 - columns.first)
    most = max(MOST_CELLS // len(area), NARROWEST)
    width = float(min(max(CELLS // len(area), NARROWEST), WIDEST))
    random = np.random.default_rng([0, len(area)])
    for number in takewhile(lambda number: number < effort.most_rounds, count()):
        again, which = divmod(number, len(COST_OFFSETS))
        if again and not which:
            width = min(GROWTH * width, most)
        noise = random.normal(0.0, NOISE if again else 0.0, len(area))
        yield Guide(STEEPNESS, COST_OFFSETS[which], area * np.exp(noise)), round(width)

"""Greedy packings at once, then rounds of a beam search that widens; ends at the bound."""

from __future__ import annotations

import time
from itertools import count

import numpy as np

from workbench.memory.packing.buffers import Buffers, Ints
from workbench.memory.packing.greedy import best_fit, place_in_order
from workbench.memory.packing.skyline import columns_of, search

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


def workbench(buffers: Buffers, most_rounds: float, deadline_s: float) -> Ints:
    """Search for a packing; more rounds, or more time, never make it worse.

    `deadline_s` is a time of `time.perf_counter`.
    """
    columns = columns_of(buffers)
    size, length = columns.size, columns.last + 1 - columns.first
    bound, area = int(columns.load.max()), 1.0 * size * length

    def peak(offsets: Ints) -> int:
        return int((offsets + size).max())

    def ends(best: Ints) -> bool:
        return peak(best) == bound or time.perf_counter() > deadline_s

    best = best_fit(buffers)
    for keys in ((-length, -size), (-size * length,), (-size, -length)):  # best for some each
        if ends(best):
            return best
        best = min(best, place_in_order(buffers, np.lexsort(keys)), key=peak)
    most = max(MOST_CELLS // len(size), NARROWEST)
    width = float(min(max(CELLS // len(size), NARROWEST), WIDEST))
    random = np.random.default_rng([0, len(size)])
    for number in count():
        if number >= most_rounds or ends(best):
            break
        again, which = divmod(number, len(COST_OFFSETS))
        if again and not which:
            width = min(GROWTH * width, most)
        counted = area * np.exp(random.normal(0.0, NOISE if again else 0.0, len(size)))
        better = search(
            columns,
            counted,
            cost_offset=COST_OFFSETS[which],
            width=round(width),
            peak_below=peak(best),
            deadline_s=deadline_s,
        )
        best = best if better is None else better
    return best

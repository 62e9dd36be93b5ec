"""Seconds of each layer, estimated from those of segments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from workbench.dynacomm.costs.iteration import FloatArray
    from workbench.dynacomm.programs.worker_and_server import Computed


def estimate(believed_s: FloatArray, computed: Iterable[Computed]) -> FloatArray:
    """Seconds of each layer, shape (L,), from those of segments.

    The mean, over all segments that a layer was computed in, of

        seconds of the segment * believed seconds of the layer / those of the segment

    Layers in no segment stay as believed; a segment believed to take nothing is shared out evenly.
    The sum over a segment that is computed repeatedly becomes its mean, and a layer computed alone
    gets its own seconds. Where cuts vary, overlapping segments separate layers; repeated, this is
    the Richardson-Lucy iteration for non-negative numbers.
    """
    count, total_s = np.zeros(len(believed_s)), np.zeros(len(believed_s))
    for (first, last), times, took_s in _by_segment(computed):
        layers = slice(first - 1, last)
        part_s = believed_s[layers]
        whole_s = part_s.sum()
        share = part_s / whole_s if whole_s > 0 else 1 / len(part_s)
        total_s[layers] += took_s * share
        count[layers] += times
    return np.where(count > 0, total_s / np.maximum(count, 1), believed_s)


def _by_segment(
    computed: Iterable[Computed],
) -> list[tuple[tuple[int, int], int, float]]:
    """Segments, how often each was computed and for how long in all."""
    found: dict[tuple[int, int], tuple[int, float]] = {}
    for first, last, seconds in computed:
        times, took_s = found.get((first, last), (0, 0.0))
        found[first, last] = times + 1, took_s + seconds
    return [(segment, *sums) for segment, sums in found.items()]

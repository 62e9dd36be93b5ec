"""What each layer takes, from what segments of them took together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from workbench.dynacomm.costs.iteration import FloatArray
    from workbench.dynacomm.programs.worker_and_server import Computed


def estimate(believed_s: FloatArray, computed: Iterable[Computed]) -> FloatArray:
    """Share what each segment took out over its layers as they are believed to be, and average.

    A layer's new seconds are the mean, over all segments that it was computed in, of

        what the segment took * believed seconds of the layer / those of the segment

    So the sum over a segment that is computed again and again becomes what it takes on average,
    and a layer computed alone what it takes itself, whatever was believed. Where cuts vary,
    segments that overlap tell layers apart; repeated, this is Richardson's and Lucy's iteration
    for numbers that are not negative.

    Parameters
    ----------
    believed_s
        Seconds of each layer, shape (L,).
    computed
        Segments and what they took, of one iteration or of several.

    Returns
    -------
    Seconds of each layer, shape (L,); as believed where a layer is in no segment. A segment
    believed to take nothing is shared out evenly.
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
    """Segments, how often each was computed and how long in all."""
    found: dict[tuple[int, int], tuple[int, float]] = {}
    for first, last, seconds in computed:
        times, took_s = found.get((first, last), (0, 0.0))
        found[first, last] = times + 1, took_s + seconds
    return [(segment, *sums) for segment, sums in found.items()]

"""A layer's seconds from its segments', layer by layer and iteration by iteration."""

from __future__ import annotations

from collections.abc import Sequence


def estimate(
    believed_s: Sequence[float], iterations: Sequence[Sequence[tuple[int, int, float]]]
) -> list[float]:
    """Mean over iterations of a segment's seconds, shared out as believed."""
    found = []
    for layer, own_s in enumerate(believed_s, start=1):
        parts = []
        for segments in iterations:
            for first, last, took_s in segments:
                if first <= layer <= last:
                    whole_s = 0.0
                    for other in range(first, last + 1):
                        whole_s += believed_s[other - 1]
                    if whole_s > 0:
                        parts.append(took_s * own_s / whole_s)
                    else:
                        parts.append(took_s / (last - first + 1))
        found.append(sum(parts) / len(parts) if parts else own_s)
    return found

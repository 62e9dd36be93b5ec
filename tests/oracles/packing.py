"""Packing of buffers by trying everything, in plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

Buffer = tuple[int, int, int]  # lower, upper, size


def alive_together(one: Buffer, other: Buffer) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])


def overlaps(buffers: Sequence[Buffer], offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs that share an address while both are alive."""
    found = []
    for one in range(len(buffers)):
        for other in range(one):
            if not alive_together(buffers[one], buffers[other]):
                continue
            begin = max(offsets[one], offsets[other])
            end = min(offsets[one] + buffers[one][2], offsets[other] + buffers[other][2])
            if begin < end:
                found.append((other, one))
    return found


def most_alive(buffers: Sequence[Buffer]) -> int:
    """Bytes alive at the step with the most of them."""
    most = 0
    for step, _, _ in buffers:
        most = max(most, sum(size for lower, upper, size in buffers if lower <= step < upper))
    return most


def least_peak(buffers: Sequence[Buffer]) -> int:
    """Least peak of all packings.

    In some best packing every buffer lies on the memory's floor or on another buffer. Sorted by
    offset, it is found by placing one buffer after the other on the highest below it.
    """
    used = [buffer for buffer in buffers if buffer[2] > 0 and buffer[0] < buffer[1]]
    best = sum(size for _, _, size in used)
    for order in permutations(used):
        tops: list[int] = []
        for count, buffer in enumerate(order):
            below = [tops[i] for i in range(count) if alive_together(order[i], buffer)]
            tops.append(max(below, default=0) + buffer[2])
        best = min(best, max(tops, default=0))
    return best

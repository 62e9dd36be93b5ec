"""How many subsets each class gets."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import UserError


def shares(sizes: Sequence[int], subsets: int) -> list[int]:
    """Share `subsets` out among classes in proportion to their sizes, at least one each.

    Rounded down, then one more to whichever is furthest below the exact share. More classes than
    subsets get one each, which makes more subsets than asked for.
    """
    points = sum(sizes)
    if not sizes or min(sizes) < 1 or not 1 <= subsets <= points:
        raise UserError(
            f"{subsets} subsets cannot be shared out among classes of {list(sizes)} points; "
            "each class needs a point, each subset too"
        )
    counts = [max(1, size * subsets // points) for size in sizes]

    def lacking(one: int) -> int:
        """By how much a class is below its exact share, times N."""
        return sizes[one] * subsets - counts[one] * points

    classes = range(len(sizes))
    while sum(counts) < subsets:
        counts[max(classes, key=lambda one: (lacking(one), -one))] += 1
    while sum(counts) > subsets and max(counts) > 1:
        several = [one for one in classes if counts[one] > 1]
        counts[min(several, key=lambda one: (lacking(one), one))] -= 1
    return counts

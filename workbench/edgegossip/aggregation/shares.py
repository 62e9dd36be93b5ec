"""How many subsets each class gets."""

from __future__ import annotations

from collections.abc import Sequence


def shares(sizes: Sequence[int], subsets: int) -> list[int]:
    """Share `subsets` out among classes in proportion to their sizes, at least one each.

    Rounded down, then one more to whoever is furthest below the exact share. More classes than
    subsets get one each, so there are then more subsets than asked for.

    Deviation: the paper divides the whole set and says that a subset holds one class only, not
    how; here classes are told apart first.

    Parameters
    ----------
    sizes
        Points of each class, at least one.
    subsets
        M, to be shared out; no more than there are points.
    """
    points = sum(sizes)
    if not sizes or min(sizes) < 1 or not 1 <= subsets <= points:
        raise ValueError(
            f"{subsets} subsets cannot be shared out among classes of {list(sizes)} points; "
            "each class needs a point, each subset too"
        )
    given = [max(1, size * subsets // points) for size in sizes]

    def lacking(one: int) -> int:
        """By how much a class is below its exact share, times N."""
        return sizes[one] * subsets - given[one] * points

    classes = range(len(sizes))
    while sum(given) < subsets:
        given[max(classes, key=lambda one: (lacking(one), -one))] += 1
    while sum(given) > subsets and max(given) > 1:
        several = [one for one in classes if given[one] > 1]
        given[min(several, key=lambda one: (lacking(one), one))] -= 1
    return given

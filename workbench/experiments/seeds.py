"""Seeds of an experiment's trainings."""

from __future__ import annotations

from workbench.checks import check_whole


def seeds_from(first: int, count: int | None, usual: int) -> range:
    """Return `count` seeds from `first` on; as many as is `usual` at the scale, if None.

    Raises ValueError: no seed, or a number that is not whole.
    """
    number = usual if count is None else check_whole("seeds", count, 1)
    return range(first, first + number)

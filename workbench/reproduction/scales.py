"""Sizes, seeds and processes by scale."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from workbench.reproduction.parameters import SCALES
from workbench.utils.checks import check_name, check_whole, choose

T = TypeVar("T")


class Scaled(NamedTuple, Generic[T]):
    """A size at each of `workbench.reproduction.parameters.SCALES`.

    >>> Scaled(smoke=64, default=720, paper=None).at("default")
    720
    """

    smoke: T
    default: T
    paper: T

    def at(self, scale: str) -> T:
        """Return the size at a scale."""
        sizes = {"smoke": self.smoke, "default": self.default, "paper": self.paper}
        return choose("scale", scale, sizes)


def seeds_from(first: int, count: int | None, usual: int) -> range:
    """Return `count` seeds from `first` on; as many as is `usual` at the scale, if None.

    Raises ValueError: no seed, or a number that is not whole.
    """
    number = usual if count is None else check_whole("seeds", count, 1)
    return range(first, first + number)


def processes_at(scale: str, processes: int | None = None) -> int | None:
    """Return the processes to train in: one at ``smoke``, else `processes` (None: one a core)."""
    return 1 if check_name("scale", scale, SCALES) == "smoke" else processes

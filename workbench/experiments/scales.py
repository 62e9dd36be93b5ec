"""Sizes by scale, and the number of processes."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar, cast

from workbench.names import check_name

T = TypeVar("T")


class Scaled(NamedTuple, Generic[T]):
    """A size at each of `workbench.parameters.SCALES`.

    >>> Scaled(smoke=64, default=720, paper=None).at("default")
    720
    """

    smoke: T
    default: T
    paper: T

    def at(self, scale: str) -> T:
        """Return the size at a scale."""
        return cast(T, getattr(self, check_name("scale", scale, self._fields)))


def processes_at(scale: str) -> int | None:
    """In how many processes trainings run: one at ``smoke``, else one for each core (None)."""
    return Scaled[int | None](smoke=1, default=None, paper=None).at(scale)

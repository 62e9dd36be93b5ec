"""Parallel scans of anything: each element combined with all before it.

>>> hillis_steele("abcd", lambda place, earlier, later: earlier + later)
['a', 'ab', 'abc', 'abcd']

The operator need only be associative. `schedules` gives a scan numbers of values in the place of
values, and so learns which node combines what, when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Combine = Callable[[int, T, T], T]
"""The operator: from a place and two values, the earlier one first, to their combination."""
Begin = Callable[[], object]
"""Called before each step, whose combinations are done at the same time."""


def _uncounted() -> None:
    """Do nothing: nobody counts steps."""


def hillis_steele(elements: Sequence[T], combine: Combine[T], begin: Begin = _uncounted) -> list[T]:
    """At distances 1, 2, 4, …, combine each value with what is that far before it (OLPB, Alg. 2).

    Deviation: Alg. 2 combines where k >= 2^h; with that, s[3] never gets s[1]. Hillis and Steele,
    and this file, combine where k > 2^(h - 1).
    """
    values, distance = list(elements), 1
    while distance < len(values):
        begin()
        values = [
            combine(place, values[place - distance], value) if place >= distance else value
            for place, value in enumerate(values)
        ]
        distance *= 2
    return values


def blelloch(
    elements: Sequence[T | None], combine: Combine[T | None], begin: Begin = _uncounted
) -> list[T | None]:
    """Sum up a tree, and send what precedes each part down it (BPPSA, Alg. 1).

    ``None`` is the identity, which `combine` is given, too: the tree is filled up with it.
    """
    count = len(elements)
    width = 1 << (count - 1).bit_length()
    values = [*elements, *[None] * (width - count)]
    distances = [1 << height for height in range(width.bit_length() - 1)]
    for distance in distances:
        begin()
        for at in range(2 * distance - 1, width, 2 * distance):
            values[at] = combine(min(at, count - 1), values[at - distance], values[at])
    total, values[-1] = values[-1], None
    for distance in reversed(distances):
        begin()
        for at in range(2 * distance - 1, width, 2 * distance):
            left, before = values[at - distance], values[at]
            values[at - distance] = before
            values[at] = combine(min(at, count - 1), before, left)
    return [*values[1:count], total]


SCANS: Mapping[str, Callable[..., list[Any]]] = {
    "hillis_steele": hillis_steele,
    "blelloch": blelloch,
}
"""Parallel scans by name."""

"""Rows for spans that overlap on one lane of a node."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

Row = tuple[str, str]
"""A node, and a lane or sub-lane on it."""


def sublanes(frame: pl.DataFrame) -> tuple[list[Row], list[Row]]:
    """Distribute a trace's spans so that no two on one row overlap, on as few rows as that takes.

    Returns each span's row, and all rows: lanes as they first appear, each followed by its
    sub-lanes, ``lane, lane 2, lane 3, ...``.

    In the order of their starts, each span goes to the first row of its lane that is free. Times
    are compared in whole nanoseconds, so that spans which only rounding lets overlap share a row,
    as do those that touch. A span of no length overlaps those that begin before and end after it.
    """
    spans: dict[Row, list[int]] = {}
    for index, row in enumerate(frame.select("node", "lane").iter_rows()):
        spans.setdefault(row, []).append(index)
    start_ns, end_ns = (list(map(nanoseconds, frame[name])) for name in ("start_s", "end_s"))
    rows: list[Row] = [("", "")] * len(frame)
    order: list[Row] = []
    taken = set(spans)
    for (node, lane), members in spans.items():
        places = _places([(start_ns[index], end_ns[index], index) for index in members])
        names = _names(node, lane, 1 + max(places.values()), taken)
        order += names
        for index, place in places.items():
            rows[index] = names[place]
    return rows, order


def nanoseconds(seconds: float) -> int:
    """Round to whole nanoseconds, the resolution of trace viewers."""
    return round(seconds * 1e9)


def _places(spans: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Place of each span: the first that is free when it starts, the shorter span first."""
    places: dict[int, int] = {}
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for start_ns, end_ns, index in sorted(spans):
        while busy and busy[0][0] <= start_ns:
            heappush(free, heappop(busy)[1])
        places[index] = heappop(free) if free else len(busy)
        heappush(busy, (end_ns, places[index]))
    return places


def _names(node: str, lane: str, count: int, taken: set[Row]) -> Sequence[Row]:
    names, number = [(node, lane)], 2
    while len(names) < count:
        name = (node, f"{lane} {number}")
        if name not in taken:
            names.append(name)
            taken.add(name)
        number += 1
    return names

"""The workbench's packer: greedy packings, then beam searches over skylines that widen.

A partial packing is a skyline: how high the memory is filled in each column of time. A *valley* is
a run of columns of equal height between two higher ones. Whatever will lie on its floor next to its
wall is flush with that wall, or leaves a gap that no other buffer fits into. So a step takes the
valley with the fewest buffers to choose from, and tries each: forced moves come first, and dead
ends show early. A valley into which nothing fits is filled up, which wastes memory.

Height plus what is still to be placed bounds a column's peak from below; only waste raises it. The
beam keeps the partial packings with the least cost per area placed. Known parts: skylines and
valleys from strip packing (Burke, Kendall and Whitwell 2004), the cost by area from anytime tree
search (Libralesso and Fontan 2021), the bounds by column from MiniMalloc (Moffitt 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.memory.packing.buffers import Buffers, Ints
from workbench.memory.packing.greedy import best_fit, place_in_order

Floats = NDArray[np.float64]

FULL = np.int64(2**61)
"""Height of a column in which all is placed."""
STEEPNESS = 1700.0
"""A column's cost grows by e with each ``bound / STEEPNESS`` bytes of its peak."""
LARGEST_EXPONENT = 330.0  # of a cost, so that no sum overflows
CELLS, NARROWEST, WIDEST = 2**13, 8, 64
"""Buffers times packings of the first round, and its fewest and most packings."""
GROWTH = 1.2
"""Growth of the packings from a round to the next."""
NOISE = 0.5
"""Spread of the logarithm of what a buffer's area counts for, after the first round."""


class Columns(NamedTuple):
    """Buffers over the columns that matter, with an empty one before the first and after the last.

    Only the largest sets of buffers alive together constrain offsets. One forms where a buffer
    begins and the next event is an end; each is a column here.
    """

    first: Ints  # column of each buffer
    last: Ints  # included
    size: Ints  # bytes
    load: Ints  # bytes alive in each column
    key: Ints  # random numbers, whose sums tell sets of buffers apart

    def mirrored(self) -> Columns:
        """The same backwards in time."""
        last = len(self.load) - 1
        return Columns(last - self.last, last - self.first, self.size, self.load[::-1], self.key)


def columns_of(buffers: Buffers) -> Columns:
    """Columns of buffers that all take memory."""
    count = len(buffers.size)
    starts = np.repeat([False, True], count)
    order = np.lexsort((starts, np.concatenate([buffers.upper, buffers.lower])))
    starts = starts[order]
    column = np.empty(2 * count, np.int64)
    column[order] = np.append(0, starts[:-1] & ~starts[1:]).cumsum()
    first, last, size = column[count:] + 1, column[:count], buffers.size
    change = np.zeros(int(last.max()) + 2, np.int64)
    np.add.at(change, first, size)
    np.subtract.at(change, last + 1, size)
    key = np.random.default_rng(0).integers(2**63, size=count)
    return Columns(first, last, size, change.cumsum(), key)


def workbench(buffers: Buffers, rounds: int) -> Ints:
    """Search for a packing until the bound is met; more rounds never make it worse."""
    columns = columns_of(buffers)
    size, length = columns.size, columns.last + 1 - columns.first
    bound, count = int(columns.load.max()), len(size)

    def peak(offsets: Ints) -> int:
        return int((offsets + size).max())

    best = best_fit(buffers)
    for keys in ((-length, -size), (-size * length,), (-size, -length)):  # best for some each
        if peak(best) == bound:
            return best
        best = min(best, place_in_order(buffers, np.lexsort(keys)), key=peak)
    random = np.random.default_rng([0, count])
    width = min(max(CELLS / count, NARROWEST), WIDEST)
    for number in range(rounds):
        if peak(best) == bound:
            break
        area = size * length * np.exp(random.normal(0.0, NOISE if number else 0.0, count))
        turned = columns.mirrored() if number % 2 else columns  # gaps lie at the other wall
        found = search(turned, area, round(width), peak(best))
        best = best if found is None else found
        width *= GROWTH
    return best


@dataclass(eq=False)
class _Beam:
    """Partial packings. P = packing, C = column, B = buffer."""

    height: Ints  # [P, C]
    reach: Ints  # [P, C], height plus what is still to be placed
    unplaced: NDArray[np.bool_]  # [P, B]


class _Moves(NamedTuple):
    """Buffers to place next, and the gap that each closes beside it up to a lower height."""

    packing: Ints
    buffer: Ints
    offset: Ints
    gap_begin: Ints  # column
    gap_end: Ints
    gap_rise: Ints


class _Runs(NamedTuple):
    """Runs of columns of equal height, one packing after the other."""

    number: Ints  # [P, C], run of a column
    begin: Ints  # column by which it begins, counted through all packings
    height: Ints
    left: Ints  # height before it, and after it
    right: Ints


def search(columns: Columns, area: Floats, width: int, peak_below: int) -> Ints | None:
    """Return offsets with a peak below a given one, or None if a beam of a width finds none.

    `area` is what placing a buffer counts for.
    """
    beam = _Beam(
        height=np.where(columns.load > 0, 0, FULL)[None],
        reach=columns.load[None].copy(),
        unplaced=np.ones((1, len(area)), bool),
    )
    history: list[_Moves] = []
    for _ in range(len(area)):
        moves, worth, peak = _moves(columns, area, beam)
        possible = np.flatnonzero(peak < peak_below)
        order = possible[np.argsort(worth[possible], kind="stable")]
        unplaced = (beam.unplaced @ columns.key)[moves.packing] - columns.key[moves.buffer]
        _, cheapest = np.unique(unplaced[order], return_index=True)  # by set of buffers placed
        kept = order[np.sort(cheapest)[:width]]
        if not len(kept):
            return None
        moves = _Moves._make(column[kept] for column in moves)
        history.append(moves)
        beam = _after(columns, beam, moves)
    offsets, end = np.zeros(len(area), np.int64), int(beam.reach.max(axis=1).argmin())
    for moves in reversed(history):
        offsets[moves.buffer[end]] = moves.offset[end]
        end = int(moves.packing[end])
    return offsets


def _moves(columns: Columns, area: Floats, beam: _Beam) -> tuple[_Moves, Floats, Ints]:
    """Moves into one valley of each packing, each with its cost per area and the peak after it."""
    first, last, size = columns.first, columns.last, columns.size
    runs, packing, buffer, run = _choices(columns, beam)
    earliest_last = np.full(len(runs.begin), FULL)
    np.minimum.at(earliest_last, run, last[buffer])
    tried = first[buffer] <= earliest_last[run]  # all others fit in behind one of these
    chosen = tried & _fewest(runs, np.bincount(run[tried], minlength=len(runs.begin)))[run]
    packing, buffer, run = packing[chosen], buffer[chosen], run[chosen]

    row = packing * beam.height.shape[1]
    begin, end = runs.begin[run], row + first[buffer]
    rise = np.minimum(runs.left[run] - runs.height[run], size[buffer]) * (begin < end)
    gaps = np.stack([begin, end], axis=1).ravel()
    sharpness = STEEPNESS / columns.load.max()
    exponent = (beam.reach - columns.load.max()) * sharpness
    cost = np.exp(np.minimum(exponent, LARGEST_EXPONENT))
    growth = np.expm1(np.minimum(rise * sharpness, LARGEST_EXPONENT))
    waste = growth * np.add.reduceat(cost.ravel(), gaps)[::2]
    highest = np.maximum.reduceat(beam.reach.ravel(), gaps)[::2] + rise
    placed = area.sum() - (beam.unplaced @ area)[packing] + area[buffer]
    moves = _Moves(packing, buffer, runs.height[run], begin - row, end - row, rise)
    peak = np.maximum(beam.reach.max(axis=1)[packing], highest * (rise > 0))
    return moves, (cost.sum(axis=1)[packing] + waste) / placed, peak


def _choices(columns: Columns, beam: _Beam) -> tuple[_Runs, Ints, Ints, Ints]:
    """Packings, buffers and valleys that these fit into; valleys that hold none are filled up."""
    while True:
        runs = _runs(beam.height)
        is_valley = (runs.height < runs.left) & (runs.height < runs.right)
        level = runs.number.take(columns.first, axis=1) == runs.number.take(columns.last, axis=1)
        packing, buffer = (level & beam.unplaced).nonzero()
        run = runs.number[packing, columns.first[buffer]]
        inside = is_valley[run]
        packing, buffer, run = packing[inside], buffer[inside], run[inside]
        is_dead = is_valley & (np.bincount(run, minlength=len(runs.begin)) == 0)
        if not is_dead.any():
            return runs, packing, buffer, run
        rise = np.where(is_dead, np.minimum(runs.left, runs.right) - runs.height, 0)[runs.number]
        beam.height += rise
        beam.reach += rise


def _runs(height: Ints) -> _Runs:
    new = np.ones(height.shape, bool)
    np.not_equal(height[:, 1:], height[:, :-1], out=new[:, 1:])
    begin = np.flatnonzero(new)
    heights = height.ravel()[begin]
    # A packing's first and last column are empty, thus FULL, and no valley: neighbours in the array
    # are neighbours in time wherever it matters.
    return _Runs(
        number=(new.ravel().cumsum() - 1).reshape(height.shape),
        begin=begin,
        height=heights,
        left=np.append(FULL, heights[:-1]),
        right=np.append(heights[1:], FULL),
    )


def _fewest(runs: _Runs, count: Ints) -> NDArray[np.bool_]:
    """Valley with the fewest buffers to try, by packing; of several, the lowest, then the first."""
    valleys = np.flatnonzero(count)
    packing = np.searchsorted(runs.number[:, 0], valleys, side="right") - 1
    order = np.lexsort((runs.height[valleys], count[valleys], packing))
    _, best = np.unique(packing[order], return_index=True)
    is_chosen = np.zeros(len(count), bool)
    is_chosen[valleys[order[best]]] = True
    return is_chosen


def _after(columns: Columns, beam: _Beam, moves: _Moves) -> _Beam:
    """The beam after moves, a packing each."""
    first, last, size = (
        part[moves.buffer][:, None] for part in (columns.first, columns.last, columns.size)
    )
    column = np.arange(len(columns.load))
    in_gap = (moves.gap_begin[:, None] <= column) & (column < moves.gap_end[:, None])
    rise = moves.gap_rise[:, None] * in_gap
    height, reach = beam.height[moves.packing] + rise, beam.reach[moves.packing] + rise
    top = moves.offset[:, None] + size
    top = np.where(top == reach, FULL, top)
    height = np.where((first <= column) & (column <= last), top, height)
    unplaced = beam.unplaced[moves.packing]
    unplaced[np.arange(len(moves.buffer)), moves.buffer] = False
    return _Beam(height, reach, unplaced)

"""Beam search over skylines: many partial packings at once, all in arrays.

A partial packing is a skyline: how high the memory is filled in each column of time. A *valley* is
a run of columns of equal height between two higher ones. Whatever will lie on its floor is flush
with one of its walls, or leaves a gap that no other buffer fits into. So a step takes the valley
with the fewest buffers to choose from, at the wall with the fewer, and tries each: forced moves
come first, and dead ends show early. A valley into which nothing fits is filled up, which wastes
memory.

Height plus what is still to be placed bounds a column's peak from below; only waste raises it. The
beam keeps the partial packings with the least cost of waste per area placed. Known parts: skylines
and valleys from strip packing (Burke, Kendall and Whitwell 2004), the cost by area from anytime
tree search (Libralesso and Fontan 2021), the bounds by column from MiniMalloc (Moffitt 2024).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.memory.packing.buffers import Buffers, Ints

Floats = NDArray[np.float64]

FULL = np.int64(2**61)
"""Height of a column in which all is placed."""
STEEPNESS = 1700.0
"""A column's cost grows by e with each ``bound / STEEPNESS`` bytes of its peak."""
LARGEST_EXPONENT = 330.0  # of a cost, so that no product of two overflows


class Columns(NamedTuple):
    """Buffers over the columns that matter, with an empty one before the first and after the last.

    Only the largest sets of buffers alive together constrain offsets. One forms where a buffer
    begins and the next event is an end; each is a column here.
    """

    first: Ints  # column of each buffer
    last: Ints  # included
    size: Ints  # bytes
    load: Ints  # bytes alive in each column
    signature: Ints  # random, the same for buffers of equal columns and size; sums tell sets apart

    @property
    def area(self) -> Floats:
        """Columns times bytes of each buffer."""
        return self.size * (self.last + 1.0 - self.first)


def columns_of(buffers: Buffers) -> Columns:
    """Columns of buffers that all take memory."""
    count = len(buffers)
    starts = np.repeat([False, True], count)
    order = np.lexsort((starts, np.concatenate([buffers.upper, buffers.lower])))
    starts = starts[order]
    column = np.empty(2 * count, np.int64)
    column[order] = np.append(0, starts[:-1] & ~starts[1:]).cumsum()
    first, last, size = column[count:] + 1, column[:count], buffers.size
    change = np.zeros(int(last.max()) + 2, np.int64)
    np.add.at(change, first, size)
    np.subtract.at(change, last + 1, size)
    _, kind = np.unique(np.stack([first, last, size]), axis=1, return_inverse=True)
    signature = np.random.default_rng(0).integers(2**63, size=count)[kind.ravel()]
    return Columns(first, last, size, change.cumsum(), signature)


@dataclass(eq=False)
class _Beam:
    """Partial packings. P = packing, C = column, B = buffer."""

    height: Ints  # [P, C]
    reach: Ints  # [P, C], height plus what is still to be placed
    unplaced: NDArray[np.bool_]  # [P, B]
    cost: Floats  # [P]
    area: Floats  # [P]
    placed: Ints  # [P], sum of the signatures of buffers placed


class _Moves(NamedTuple):
    """Ways to go on: a buffer at an offset, and the gap that it closes up to a lower height."""

    packing: Ints
    buffer: Ints
    offset: Ints
    gap_begin: Ints  # column
    gap_end: Ints
    gap_rise: Ints
    cost: Floats
    area: Floats
    peak: Ints
    placed: Ints


class _Runs(NamedTuple):
    """Runs of equal height, one packing after the other."""

    number: Ints  # [P, C], run of a column
    begin: Ints  # column by which it begins, counted through all packings
    end: Ints
    height: Ints
    left: Ints  # height before it, and after it
    right: Ints


def search(
    columns: Columns,
    area: Floats,
    *,
    cost_offset: float,
    width: int,
    peak_below: int,
    deadline_s: float,
) -> Ints | None:
    """Return offsets with a peak below a given one, or None if the beam found none in time.

    `area` is what placing a buffer counts for; the larger `cost_offset`, the more it does beside
    waste. `deadline_s` is a time of `time.perf_counter`.
    """
    load, bound = columns.load, int(columns.load.max())
    beam = _Beam(
        height=np.where(load > 0, 0, FULL)[None],
        reach=load[None].copy(),
        unplaced=np.ones((1, len(area)), bool),
        cost=np.array([cost_offset * _cost(load, bound).sum()]),
        area=np.zeros(1),
        placed=np.zeros(1, np.int64),
    )
    history: list[_Moves] = []
    for _ in range(len(area)):
        if time.perf_counter() > deadline_s:
            return None
        moves = _moves(columns, area, beam, bound, peak_below)
        possible = np.flatnonzero(moves.peak < peak_below)
        order = possible[np.argsort((moves.cost / moves.area)[possible], kind="stable")]
        _, cheapest = np.unique(moves.placed[order], return_index=True)  # of each set placed
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


def _cost(reach: Ints, bound: int) -> Floats:
    """Cost of columns whose peak is at least `reach`."""
    cost: Floats = np.exp(np.minimum((reach - bound) * (STEEPNESS / bound), LARGEST_EXPONENT))
    return cost


def _growth(rise: Ints, bound: int) -> Floats:
    """Factor less one by which the cost of columns grows whose reach rises."""
    growth: Floats = np.expm1(np.minimum(rise * (STEEPNESS / bound), LARGEST_EXPONENT))
    return growth


def _moves(columns: Columns, area: Floats, beam: _Beam, bound: int, peak_below: int) -> _Moves:
    """Moves into one valley of each packing, after valleys that hold nothing are filled up."""
    first, last = columns.first, columns.last
    while True:
        runs = _runs(beam.height)
        level = runs.number.take(first, axis=1) == runs.number.take(last, axis=1)
        packing, buffer = (level & beam.unplaced).nonzero()
        run = runs.number[packing, first[buffer]]
        is_valley = (runs.height < runs.left) & (runs.height < runs.right)
        inside = is_valley[run]
        packing, buffer, run = packing[inside], buffer[inside], run[inside]
        choices = np.bincount(run, minlength=len(runs.begin))
        cost, head = _cost(beam.reach, bound).ravel(), runs.number[:, 0]
        dead = is_valley & (choices == 0)
        if dead.any():
            rise = np.where(dead, np.minimum(runs.left, runs.right) - runs.height, 0)
            added = _growth(rise, bound) * np.add.reduceat(cost, runs.begin)
            beam.cost += np.add.reduceat(added, head)
            beam.height += rise[runs.number]
            beam.reach += rise[runs.number]
        # Filling leaves the other valleys as they are, so what was found in them stays right.
        peak = beam.reach.max(axis=1)
        if not ((np.add.reduceat(choices, head) == 0) & (peak < peak_below)).any():
            break
    chosen, at_right = _branches(runs, run, first[buffer], last[buffer])
    packing, buffer, run, at_right = packing[chosen], buffer[chosen], run[chosen], at_right[chosen]
    row = packing * beam.height.shape[1]
    begin = np.where(at_right, row + last[buffer] + 1, runs.begin[run])
    end = np.where(at_right, runs.end[run], row + first[buffer])
    wall = np.where(at_right, runs.right[run], runs.left[run])
    offset = runs.height[run]
    rise = np.where(begin < end, np.minimum(wall - offset, columns.size[buffer]), 0)
    gaps = np.stack([begin, end], axis=1).ravel()
    added = np.where(rise > 0, _growth(rise, bound) * np.add.reduceat(cost, gaps)[::2], 0)
    highest = np.maximum.reduceat(beam.reach.ravel(), gaps)[::2] + rise
    return _Moves(
        packing,
        buffer,
        offset,
        begin - row,
        end - row,
        rise,
        beam.cost[packing] + added,
        beam.area[packing] + area[buffer],
        np.maximum(peak[packing], np.where(rise > 0, highest, 0)),
        beam.placed[packing] + columns.signature[buffer],
    )


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
        end=np.append(begin[1:], height.size),
        height=heights,
        left=np.append(FULL, heights[:-1]),
        right=np.append(heights[1:], FULL),
    )


def _branches(
    runs: _Runs, run: Ints, first: Ints, last: Ints
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which buffers to try in their valleys, and whether each lies at the right wall.

    From the left, a buffer is tried unless another fits in before it.
    """
    count = len(runs.begin)
    earliest_last, latest_first = np.full(count, FULL), np.full(count, -1)
    np.minimum.at(earliest_last, run, last)
    np.maximum.at(latest_first, run, first)
    from_left, from_right = first <= earliest_last[run], last >= latest_first[run]
    lefts = np.bincount(run[from_left], minlength=count)
    rights = np.bincount(run[from_right], minlength=count)
    fewest = np.minimum(lefts, rights)
    valleys = np.flatnonzero(fewest)
    # The valley with the fewest to try; of several, the lowest, then the leftmost.
    owner = np.searchsorted(runs.number[:, 0], valleys, side="right") - 1
    valleys = valleys[np.lexsort((runs.height[valleys], fewest[valleys], owner))]
    chosen = np.zeros(count, bool)
    chosen[valleys[np.unique(np.sort(owner), return_index=True)[1]]] = True
    at_right = (rights < lefts)[run]
    return chosen[run] & np.where(at_right, from_right, from_left), at_right


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
    return _Beam(height, reach, unplaced, moves.cost, moves.area, moves.placed)

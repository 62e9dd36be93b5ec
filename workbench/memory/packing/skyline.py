"""Beam search over skylines: many partial packings at once, all in arrays.

A partial packing is a skyline: how high the memory is filled in each column. A *valley* is a run of
columns of equal height between two higher ones. Whatever will lie on its floor is flush with one of
its walls, or leaves a gap that no other buffer fits into. So a step takes the valley with the
fewest buffers to choose from, at the wall with the fewer, and tries each: forced moves come first,
and dead ends show early. A valley into which nothing fits is filled up, which wastes memory.

Height plus what is still to be placed bounds a column's peak from below; only waste raises it. The
beam keeps the partial packings with the least cost of waste per area placed. Known parts: skylines
and valleys from strip packing (Burke, Kendall and Whitwell 2004), the cost by area from anytime
tree search (Libralesso and Fontan 2021), the bounds by column from MiniMalloc (Moffitt 2024).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.memory.packing.buffers import Ints
from workbench.memory.packing.columns import Columns

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

FULL = np.int64(2**61)
"""Height of a column in which all is placed."""
LARGEST_EXPONENT = 500.0  # of the cost, so that no sum overflows


@dataclass(frozen=True, eq=False)
class Guide:
    """What makes one partial packing look better than another."""

    steepness: float  # a column's cost grows by e with each ``bound / steepness`` bytes of its peak
    offset: float  # of the cost of waste; the larger, the more the area placed counts
    area: Floats  # what placing a buffer counts for

    def cost(self, reach: Ints, bound: int) -> Floats:
        """Cost of columns whose peak is at least `reach`."""
        exponent = np.minimum((reach - bound) * (self.steepness / bound), LARGEST_EXPONENT)
        cost: Floats = np.exp(exponent)
        return cost


@dataclass(eq=False)
class _Packings:
    """Partial packings. P = packing, C = column, B = buffer."""

    height: Ints  # [P, C]
    reach: Ints  # [P, C], height plus what is still to be placed
    unplaced: Mask  # [P, B + 1]; the last stands for no buffer
    cost: Floats
    area: Floats
    peak: Ints  # [P], the largest reach
    placed: Ints  # [P], equal for the same kinds of buffers placed


@dataclass(frozen=True, eq=False)
class _Runs:
    """Runs of equal height of all packings, one packing after the other."""

    number: Ints  # [P, C], of the run of a column
    begin: Ints  # column by which it begins, counted through all packings
    end: Ints
    height: Ints
    left: Ints  # height before it, and behind it
    right: Ints
    owner: Ints  # its packing
    head: Ints  # [P], first run of a packing

    @property
    def is_valley(self) -> Mask:
        return (self.height < self.left) & (self.height < self.right)


@dataclass(frozen=True, eq=False)
class _Moves:
    """Ways to go on: a buffer at an offset, and the gap it closes up to a lower height."""

    packing: Ints
    buffer: Ints
    offset: Ints
    gap_begin: Ints  # column
    gap_length: Ints
    gap_rise: Ints
    cost: Floats
    area: Floats
    peak: Ints
    placed: Ints

    def __len__(self) -> int:
        return len(self.packing)

    def __getitem__(self, chosen: NDArray[np.int64] | Mask) -> _Moves:
        return _Moves(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def search(
    columns: Columns, guide: Guide, width: int, peak_below: int, deadline_s: float
) -> Ints | None:
    """Return offsets with a peak below a given one, or None if the beam found none in time.

    `deadline_s` is a time of `time.perf_counter`.
    """
    packings = _nothing_placed(columns, guide)
    history = []
    for _ in range(columns.buffers):
        if time.perf_counter() > deadline_s:
            return None
        moves = _best(_moves(columns, guide, packings, peak_below), width, peak_below)
        if not len(moves):
            return None
        history.append(moves)
        packings = _after(columns, packings, moves)
    return _offsets(history, int(packings.peak.argmin()))


def _nothing_placed(columns: Columns, guide: Guide) -> _Packings:
    load = columns.load
    return _Packings(
        height=np.where(load > 0, 0, FULL)[None],
        reach=load[None].copy(),
        unplaced=np.append(np.ones(columns.buffers, bool), False)[None],
        cost=np.array([guide.offset * guide.cost(load, columns.bound).sum()]),
        area=np.zeros(1),
        peak=np.array([columns.bound]),
        placed=np.zeros(1, np.int64),
    )


def _moves(columns: Columns, guide: Guide, packings: _Packings, peak_below: int) -> _Moves:
    while True:
        runs = _runs(packings.height)
        packing, buffer = _lying_flat(columns, packings, runs)
        run = runs.number[packing, columns.first[buffer]]
        is_valley = runs.is_valley
        inside = is_valley[run]
        packing, buffer, run = packing[inside], buffer[inside], run[inside]
        choices = np.bincount(run, minlength=len(runs.begin))
        _fill(columns, guide, packings, runs, np.flatnonzero(is_valley & (choices == 0)))
        # Filling leaves the other valleys as they are, so what was found in them stays right.
        stuck = np.add.reduceat(choices, runs.head) == 0
        if not (stuck & (packings.peak < peak_below)).any():
            break
    flush, at_right = _branches(columns, runs, buffer, run)
    packing, buffer, run = packing[flush], buffer[flush], run[flush]
    one_of_twins = ~packings.unplaced[packing, columns.twin[buffer]]
    packing, buffer, run = packing[one_of_twins], buffer[one_of_twins], run[one_of_twins]
    return _judged(
        columns,
        guide,
        packings,
        runs,
        packing=packing,
        buffer=buffer,
        run=run,
        at_right=at_right[run],
    )


def _runs(height: Ints) -> _Runs:
    width = height.shape[1]
    new = np.ones(height.shape, bool)
    np.not_equal(height[:, 1:], height[:, :-1], out=new[:, 1:])
    begin = np.flatnonzero(new)
    number = (new.ravel().cumsum() - 1).reshape(height.shape)
    heights = height.ravel()[begin]
    # A packing's first and last column are empty, thus FULL, and no valley: neighbours in the array
    # are neighbours in time wherever it matters.
    left, right = np.full((2, len(heights)), FULL)
    left[1:], right[:-1] = heights[:-1], heights[1:]
    return _Runs(
        number=number,
        begin=begin,
        end=np.append(begin[1:], height.size),
        height=heights,
        left=left,
        right=right,
        owner=begin // width,
        head=number[:, 0],
    )


def _lying_flat(columns: Columns, packings: _Packings, runs: _Runs) -> tuple[Ints, Ints]:
    """Pairs of a packing and an unplaced buffer for which the skyline is level."""
    level = runs.number.take(columns.first, axis=1) == runs.number.take(columns.last, axis=1)
    level &= packings.unplaced[:, :-1]
    packing, buffer = level.nonzero()
    return packing, buffer


def _fill(columns: Columns, guide: Guide, packings: _Packings, runs: _Runs, dead: Ints) -> None:
    """Raise valleys to the lower of their walls."""
    if not len(dead):
        return
    level = np.minimum(runs.left[dead], runs.right[dead])
    length = runs.end[dead] - runs.begin[dead]
    cells = _ranges(runs.begin[dead], length)
    packings.height.ravel()[cells] = level.repeat(length)
    before = packings.reach.ravel()[cells]
    after = before + (level - runs.height[dead]).repeat(length)
    packings.reach.ravel()[cells] = after
    owner = runs.owner[dead].repeat(length)
    np.maximum.at(packings.peak, owner, after)
    added = guide.cost(after, columns.bound) - guide.cost(before, columns.bound)
    np.add.at(packings.cost, owner, added)


def _branches(columns: Columns, runs: _Runs, buffer: Ints, run: Ints) -> tuple[Mask, Mask]:
    """Which pairs of a buffer and a valley to try, and whether a valley is filled from the right.

    From the left, a buffer is tried unless another fits in before it.
    """
    first, last, count = columns.first[buffer], columns.last[buffer], len(runs.begin)
    earliest_last = np.full(count, FULL)
    np.minimum.at(earliest_last, run, last)
    latest_first = np.full(count, -1)
    np.maximum.at(latest_first, run, first)
    from_left, from_right = first <= earliest_last[run], last >= latest_first[run]
    lefts = np.bincount(run[from_left], minlength=count)
    rights = np.bincount(run[from_right], minlength=count)
    fewest = np.minimum(lefts, rights)
    open_runs = np.flatnonzero(fewest)
    # The valley with the fewest to try; of several, the lowest, then the leftmost.
    order = np.lexsort((runs.height[open_runs], fewest[open_runs], runs.owner[open_runs]))
    sorted_runs = open_runs[order]
    owner = runs.owner[sorted_runs]
    chosen = np.zeros(count, bool)
    chosen[sorted_runs[np.append(True, owner[1:] != owner[:-1])[: len(owner)]]] = True
    at_right = rights < lefts
    return chosen[run] & np.where(at_right[run], from_right, from_left), at_right


def _judged(
    columns: Columns,
    guide: Guide,
    packings: _Packings,
    runs: _Runs,
    *,
    packing: Ints,
    buffer: Ints,
    run: Ints,
    at_right: Mask,
) -> _Moves:
    """Moves with the cost and the peak to which they lead."""
    first, behind = columns.first[buffer], columns.last[buffer] + 1
    row = packing * packings.height.shape[1]
    begin, end = runs.begin[run] - row, runs.end[run] - row
    offset = runs.height[run]
    gap_begin = np.where(at_right, behind, begin)
    gap_length = np.where(at_right, end - behind, first - begin)
    wall = np.where(at_right, runs.right[run], runs.left[run])
    gap_rise = np.minimum(wall - offset, columns.size[buffer])
    cost, peak = packings.cost[packing], packings.peak[packing]
    gaps = np.flatnonzero(gap_length)
    if len(gaps):
        length = gap_length[gaps]
        cells = _ranges((row + gap_begin)[gaps], length)
        before = packings.reach.ravel()[cells]
        after = before + gap_rise[gaps].repeat(length)
        parts = length.cumsum() - length
        peak[gaps] = np.maximum(peak[gaps], np.maximum.reduceat(after, parts))
        added = guide.cost(after, columns.bound) - guide.cost(before, columns.bound)
        cost[gaps] += np.add.reduceat(added, parts)
    return _Moves(
        packing,
        buffer,
        offset,
        gap_begin,
        gap_length,
        gap_rise,
        cost,
        area=packings.area[packing] + guide.area[buffer],
        peak=peak,
        placed=packings.placed[packing] + columns.signature[buffer],
    )


def _best(moves: _Moves, width: int, peak_below: int) -> _Moves:
    """Keep the cheapest, one for each set of buffers placed."""
    possible = np.flatnonzero(moves.peak < peak_below)
    order = possible[np.argsort((moves.cost / moves.area)[possible], kind="stable")]
    _, cheapest = np.unique(moves.placed[order], return_index=True)
    return moves[order[np.sort(cheapest)[:width]]]


def _after(columns: Columns, packings: _Packings, moves: _Moves) -> _Packings:
    height, reach = packings.height[moves.packing], packings.reach[moves.packing]
    unplaced = packings.unplaced[moves.packing]
    unplaced[np.arange(len(moves)), moves.buffer] = False
    row = np.arange(len(moves)) * height.shape[1]
    gaps = _ranges(row + moves.gap_begin, moves.gap_length)
    rise = moves.gap_rise.repeat(moves.gap_length)
    height.ravel()[gaps] += rise
    reach.ravel()[gaps] += rise
    first = columns.first[moves.buffer]
    length = columns.last[moves.buffer] + 1 - first
    cells = _ranges(row + first, length)
    top = (moves.offset + columns.size[moves.buffer]).repeat(length)
    top[top == reach.ravel()[cells]] = FULL
    height.ravel()[cells] = top
    return _Packings(height, reach, unplaced, moves.cost, moves.area, moves.peak, moves.placed)


def _offsets(history: Sequence[_Moves], end: int) -> Ints:
    """Offsets of the packing that ends as number `end`, traced back."""
    offsets = np.zeros(len(history), np.int64)
    for moves in reversed(history):
        offsets[moves.buffer[end]] = moves.offset[end]
        end = int(moves.packing[end])
    return offsets


def _ranges(begin: Ints, length: Ints) -> Ints:
    """All whole numbers of the ranges, one range after the other."""
    behind = length.cumsum()
    shift: Ints = (begin - behind + length).repeat(length)
    return shift + np.arange(len(shift))

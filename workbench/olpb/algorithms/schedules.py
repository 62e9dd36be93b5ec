"""Which node combines what, when: parallel scans as plain data.

Elements are dealt to nodes in contiguous runs. Every node scans its run, the runs' totals are
scanned by a parallel algorithm with one total a node, and every node applies what precedes its run
to what it has. A simulator can run a schedule and a cost model can price it without an operator.

With n = m b elements on b nodes, m a whole number and b a power of two, an inclusive scan takes

=============  ======================  ==========================================
algorithm      steps S                 work W
=============  ======================  ==========================================
hillis_steele  2 (m - 1) + log b       (n - b) + (b log b - b + 1) + (b - 1)(m - 1)
blelloch       2 (m - 1) + 2 log b - 1 (n - b) + (2 (b - 1) - log b) + (b - 1)(m - 1)
=============  ======================  ==========================================

(b of at least 2, logarithms to base 2; n - 1 of both on one node). An exclusive scan needs no total
of all: on n nodes Blelloch's takes 2 log n - 2 steps and 2 (n - 1 - log n) applications.

Deviation: the paper counts S = n / b + log b and W = n log n. Ours equals its logarithm, and its
n log n up to n - 1 nodes that have nobody to combine with. Its n / b stands for the scan of a run
alone; to apply the totals costs another n / b - 1, which no scan on b nodes avoids within this
scheme. Alg. 2 combines where k >= 2^h; with that, s[3] never gets s[1]. Hillis and Steele, and
this file, combine where k > 2^(h - 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple

Prefix = int | None
"""Number of a value; None is the identity, which costs nothing to combine with."""


class Move(NamedTuple):
    """One application of the operator: a node combines two values, the earlier one left."""

    node: int
    left: int
    right: int
    result: int


class Message(NamedTuple):
    """A value that has to be at another node before a stage, or when all stages are done."""

    stage: int
    value: int
    source: int
    target: int


Stage = tuple[Move, ...]
"""What is done at the same time, at most one move a node."""


@dataclass(frozen=True)
class Schedule:
    """A scan of numbered elements; every result has a number of its own.

    Attributes
    ----------
    homes
        Node that holds each value: elements first, then results.
    prefixes
        By element, the value that is its result.
    """

    elements: int
    nodes: int
    stages: tuple[Stage, ...]
    homes: tuple[int, ...]
    prefixes: tuple[Prefix, ...]

    @property
    def steps(self) -> int:
        """S: applications of the operator one after the other."""
        return len(self.stages)

    @property
    def work(self) -> int:
        """W: all applications of the operator."""
        return sum(map(len, self.stages))

    @property
    def moves(self) -> Iterator[Move]:
        """All moves, in the order of stages."""
        return chain.from_iterable(self.stages)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """What nodes send, each value once to a node; results end where their element is."""
        there: set[tuple[int, int]] = set()
        found: list[Message] = []

        def need(stage: int, value: int, node: int) -> None:
            if self.homes[value] != node and (value, node) not in there:
                there.add((value, node))
                found.append(Message(stage, value, self.homes[value], node))

        for number, stage in enumerate(self.stages):
            for move in stage:
                need(number, move.left, move.node)
                need(number, move.right, move.node)
        for element, prefix in enumerate(self.prefixes):
            if prefix is not None:
                need(self.steps, prefix, self.homes[element])
        return tuple(found)


def schedule(
    algorithm: str,
    elements: int,
    nodes: int | Sequence[range] | None = None,
    *,
    exclusive: bool = False,
) -> Schedule:
    """Plan a scan.

    Parameters
    ----------
    algorithm
        A name in `ALGORITHMS`: how the totals of the runs are scanned.
    nodes
        By default as many as elements; those beyond have nothing to do. Or the run of each node,
        one after the other; an empty one has nothing to do.
    exclusive
        Whether an element's result is of those before it alone, the first one's the identity.
    """
    scan_totals = ALGORITHMS[algorithm]
    if isinstance(nodes, Sequence):
        dealt = tuple(nodes)
    else:
        dealt = deal(elements, max(elements, 1) if nodes is None else nodes)
    moves = _Moves(dealt)
    inclusive = _inclusive(moves, [run for run in dealt if run], scan_totals) if elements else []
    prefixes = [None, *inclusive[:-1]] if exclusive and inclusive else inclusive
    stages = moves.needed_for(prefixes)
    return Schedule(elements, len(dealt), stages, tuple(moves.homes), tuple(prefixes))


def deal(elements: int, nodes: int) -> tuple[range, ...]:
    """Contiguous runs of elements; the first ones are longer by one where there is a remainder."""
    least, longer = divmod(elements, nodes)
    starts = [node * least + min(node, longer) for node in range(nodes + 1)]
    return tuple(range(start, end) for start, end in pairwise(starts))


class _Moves:
    """Stages so far, and where each value is; nodes count from 0 among those with elements."""

    def __init__(self, runs: Sequence[range]) -> None:
        self.homes = [node for node, run in enumerate(runs) for _ in run]
        self._nodes = [node for node, run in enumerate(runs) if run]
        self._stages: list[list[Move]] = []

    def next_stage(self) -> None:
        self._stages.append([])

    def apply(self, node: int, left: Prefix, right: Prefix) -> Prefix:
        if left is None or right is None:
            return right if left is None else left
        self.homes.append(self._nodes[node])
        self._stages[-1].append(Move(self._nodes[node], left, right, len(self.homes) - 1))
        return len(self.homes) - 1

    def needed_for(self, prefixes: Sequence[Prefix]) -> tuple[Stage, ...]:
        """Stages without moves that the results do not depend on."""
        needed, kept = set(prefixes), list[Stage]()
        for stage in reversed(self._stages):
            moves = tuple(move for move in stage if move.result in needed)
            needed.update(one for move in moves for one in (move.left, move.right))
            kept.extend([moves] if moves else [])
        return tuple(reversed(kept))


Totals = Callable[[_Moves, Sequence[Prefix]], list[Prefix]]


def _inclusive(moves: _Moves, runs: Sequence[range], scan_totals: Totals) -> list[Prefix]:
    within: list[list[Prefix]] = [[run[0]] for run in runs]
    longest = max(map(len, runs))
    for place in range(1, longest):
        moves.next_stage()
        for node, run in enumerate(runs):
            if place < len(run):
                within[node].append(moves.apply(node, within[node][-1], run[place]))
    totals = scan_totals(moves, [found[-1] for found in within])
    for place in range(longest - 1):
        moves.next_stage()
        for node, found in enumerate(within[1:], 1):
            if place < len(found) - 1:
                found[place] = moves.apply(node, totals[node - 1], found[place])
    for found, total in zip(within, totals, strict=True):
        found[-1] = total
    return [one for found in within for one in found]


def _hillis_steele(moves: _Moves, totals: Sequence[Prefix]) -> list[Prefix]:
    """At distances 1, 2, 4, …, every node takes in what is that far before it (OLPB, Alg. 2)."""
    found, distance = list(totals), 1
    while distance < len(found):
        moves.next_stage()
        found = [
            moves.apply(node, found[node - distance], own) if node >= distance else own
            for node, own in enumerate(found)
        ]
        distance *= 2
    return found


def _blelloch(moves: _Moves, totals: Sequence[Prefix]) -> list[Prefix]:
    """Sums up a tree, and sends what precedes each part down it; padded by the identity."""
    count = len(totals)
    width = 1 << (count - 1).bit_length()
    held = [*totals, *[None] * (width - count)]
    distances = [1 << one for one in range(width.bit_length() - 1)]
    for distance in distances:
        moves.next_stage()
        for at in range(2 * distance - 1, width, 2 * distance):
            held[at] = moves.apply(min(at, count - 1), held[at - distance], held[at])
    total, held[-1] = held[-1], None
    for distance in reversed(distances):
        moves.next_stage()
        for at in range(2 * distance - 1, width, 2 * distance):
            left, before = held[at - distance], held[at]
            held[at - distance] = before
            held[at] = moves.apply(min(at, count - 1), before, left)
    return [*held[1:count], total]


ALGORITHMS: Mapping[str, Totals] = {"hillis_steele": _hillis_steele, "blelloch": _blelloch}
"""By name: how totals, one a node, are scanned."""

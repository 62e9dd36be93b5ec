"""Schedules of parallel scans: which node combines what, when, as plain data.

A schedule is what a scan of `scans` does with numbers of values in the place of values. Nodes can
run it and a cost model can price it without an operator. There are two ways to scan more elements
than there are nodes.

`schedule` deals elements to nodes in contiguous runs. Every node scans its run, the runs' totals
are scanned by a parallel algorithm with one total a node, and every node applies what precedes its
run to what it has. `batched` takes as many elements at a time as there are nodes, one each ("these
subtasks are executed in batches", OLPB, Sec. IV).

By runs, with n = m b elements on b nodes, m a whole number and b a power of two, an inclusive scan
takes

=============  ======================  ==========================================
algorithm      steps S                 work W
=============  ======================  ==========================================
hillis_steele  2 (m - 1) + log b       (n - b) + (b log b - b + 1) + (b - 1)(m - 1)
blelloch       2 (m - 1) + 2 log b - 1 (n - b) + (2 (b - 1) - log b) + (b - 1)(m - 1)
=============  ======================  ==========================================

(b of at least 2, logarithms to base 2; n - 1 of both on one node). An exclusive scan needs no total
of all: on n nodes Blelloch's takes 2 log n - 2 steps and 2 (n - 1 - log n) applications. In batches
the scan of b elements is done m times, and m - 1 times its first element takes in what precedes it.

Deviation: the paper counts S = n / b + log b and W = n log n. Ours by runs equals its logarithm,
and its n log n up to n - 1 nodes that have nobody to combine with. Its n / b stands for the scan of
a run alone; to apply the totals costs another n / b - 1, which no scan on b nodes avoids within
this scheme. Batches, of which the paper's text speaks, take m log b + m - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import Generic, NamedTuple, TypeVar

from workbench.olpb.algorithms.scans import SCANS

T = TypeVar("T")
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
"""Moves at the same time, at most one a node."""


@dataclass(frozen=True)
class Schedule:
    """A scan of numbered elements; every result has a number of its own."""

    elements: int
    nodes: int
    stages: tuple[Stage, ...]
    homes: tuple[int, ...]  # node that holds each value: elements first, then results
    prefixes: tuple[Prefix, ...]  # by element, the value that is its result
    made_after: tuple[int, ...]  # by element, stages after which its node makes it

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
    def spans(self) -> Mapping[int, range]:
        """Elements that are combined in each value, elements first."""
        spans = {element: range(element, element + 1) for element in range(self.elements)}
        for move in self.moves:
            spans[move.result] = range(spans[move.left].start, spans[move.right].stop)
        return spans

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """Messages of nodes, each value once to a node; results end where their element is."""
        needed: dict[tuple[int, int], int] = {}  # value, node -> the first stage that needs it
        for number, stage in enumerate(self.stages):
            for move in stage:
                needed.setdefault((move.left, move.node), number)
                needed.setdefault((move.right, move.node), number)
        for home, prefix in zip(self.homes, self.prefixes, strict=False):
            if prefix is not None:
                needed.setdefault((prefix, home), self.steps)
        return tuple(
            Message(stage, value, self.homes[value], node)
            for (value, node), stage in needed.items()
            if self.homes[value] != node
        )


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
        A name in `scans.SCANS`: how the totals of the runs are scanned.
    nodes
        By default as many as elements; those beyond have nothing to do. Or the run of each node,
        one after the other; an empty one has nothing to do.
    exclusive
        Whether an element's result is of those before it alone, the first one's the identity.
    """
    if isinstance(nodes, Sequence):
        dealt = tuple(nodes)
    else:
        dealt = deal(elements, max(elements, 1) if nodes is None else nodes)
    moves = _Moves([node for node, run in enumerate(dealt) for _ in run], dealt)
    inclusive = (
        _inclusive(moves, [run for run in dealt if run], SCANS[algorithm]) if elements else []
    )
    return moves.scheduled(len(dealt), inclusive, [0] * elements, exclusive=exclusive)


def batched(
    algorithm: str, elements: int, nodes: int | Sequence[range], *, exclusive: bool = False
) -> Schedule:
    """Plan a scan in batches of an element a node; parameters as for `schedule`.

    The first element of a batch takes in what all before it come to. A node makes its element of a
    batch when it is done with the batch before, and waits for nobody whose values it does not need.
    """
    dealt = deal_batches(elements, nodes) if isinstance(nodes, int) else tuple(nodes)
    home = {element: node for node, own in enumerate(dealt) for element in own}
    moves = _Moves([home[element] for element in range(elements)], dealt)
    inclusive: list[Prefix] = []
    made_after: list[int] = []
    at_once = max(sum(bool(own) for own in dealt), 1)
    for start in range(0, elements, at_once):
        batch: list[Prefix] = list(range(start, min(start + at_once, elements)))
        made_after += [moves.count] * len(batch)
        if inclusive:
            moves.next_stage()
            batch[0] = moves.apply(0, inclusive[-1], batch[0])
        inclusive += SCANS[algorithm](batch, moves.apply, moves.next_stage)
    return moves.scheduled(len(dealt), inclusive, made_after, exclusive=exclusive)


def deal(elements: int, nodes: int) -> tuple[range, ...]:
    """Contiguous runs of elements; the first ones are longer by one where there is a remainder."""
    least, longer = divmod(elements, nodes)
    starts = (node * least + min(node, longer) for node in range(nodes + 1))
    return tuple(range(start, end) for start, end in pairwise(starts))


def deal_batches(elements: int, nodes: int) -> tuple[range, ...]:
    """An element of each batch for every node, as long as there are any."""
    return tuple(range(node, elements, nodes) for node in range(nodes))


class _Moves:
    """Stages so far, and where each value is; nodes count from 0 among those with elements."""

    def __init__(self, homes: Sequence[int], runs: Sequence[range]) -> None:
        self._elements = len(homes)
        self._homes = list(homes)
        self._nodes = [node for node, run in enumerate(runs) if run]
        self._stages: list[list[Move]] = []

    @property
    def count(self) -> int:
        """Stages so far."""
        return len(self._stages)

    def next_stage(self) -> None:
        self._stages.append([])

    def apply(self, node: int, left: Prefix, right: Prefix) -> Prefix:
        if left is None or right is None:
            return right if left is None else left
        self._homes.append(self._nodes[node])
        self._stages[-1].append(Move(self._nodes[node], left, right, len(self._homes) - 1))
        return len(self._homes) - 1

    def scheduled(
        self, nodes: int, inclusive: list[Prefix], made_after: Sequence[int], *, exclusive: bool
    ) -> Schedule:
        """The schedule, without moves that the results do not depend on."""
        prefixes = [None, *inclusive[:-1]] if exclusive and inclusive else inclusive
        needed, kept = set(prefixes), list[Stage]()
        for stage in reversed(self._stages):
            moves = tuple(move for move in stage if move.result in needed)
            needed.update(chain.from_iterable((move.left, move.right) for move in moves))
            kept.insert(0, moves)
        before = [0, *accumulate(bool(stage) for stage in kept)]
        return Schedule(
            self._elements,
            nodes,
            tuple(stage for stage in kept if stage),
            tuple(self._homes),
            tuple(prefixes),
            tuple(before[count] for count in made_after),
        )


def _inclusive(
    moves: _Moves, runs: Sequence[range], scan: Callable[..., list[Prefix]]
) -> list[Prefix]:
    within: list[list[Prefix]] = [[run[0]] for run in runs]
    longest = max(map(len, runs))
    for place in range(1, longest):
        moves.next_stage()
        for node, run in enumerate(runs):
            if place < len(run):
                within[node].append(moves.apply(node, within[node][-1], run[place]))
    totals = scan([prefixes[-1] for prefixes in within], moves.apply, moves.next_stage)
    for place in range(longest - 1):
        moves.next_stage()
        for node, prefixes in enumerate(within[1:], 1):
            if place < len(prefixes) - 1:
                prefixes[place] = moves.apply(node, totals[node - 1], prefixes[place])
    for prefixes, total in zip(within, totals, strict=True):
        prefixes[-1] = total
    return list(chain.from_iterable(within))


@dataclass(frozen=True)
class Scan(Generic[T]):
    """Results of a scan on one machine, and its amounts.

    Elements are where they are needed first, and results end there.
    """

    results: list[T]  # by element
    steps: int  # S: applications of the operator, one after the other
    work: int  # W: in all
    critical_flops: int  # of the dearest of each stage, as stages wait for one another
    flops: int
    bytes_sent: int  # from node to node


def run(
    planned: Schedule,
    elements: Sequence[T],
    combine: Callable[[T, T], T],
    identity: T,
    *,
    flops: Callable[[T, T], int] = lambda earlier, later: 0,
    size_bytes: Callable[[T], int] = lambda value: 0,
) -> Scan[T]:
    """Run a schedule on one machine, for any associative operator, commuting or not."""
    known = dict(enumerate(elements))
    critical_flops = all_flops = 0
    for stage in planned.stages:
        of_moves: list[int] = []
        for move in stage:
            left, right = known[move.left], known[move.right]
            of_moves.append(flops(left, right))
            known[move.result] = combine(left, right)
        critical_flops, all_flops = critical_flops + max(of_moves), all_flops + sum(of_moves)
    sent = sum(size_bytes(known[message.value]) for message in planned.messages)
    results = [identity if value is None else known[value] for value in planned.prefixes]
    return Scan(results, planned.steps, planned.work, critical_flops, all_flops, sent)

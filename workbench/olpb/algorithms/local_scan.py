"""A scan by its schedule on one machine, for any associative operator, commuting or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from workbench.olpb.algorithms.schedules import Schedule

T = TypeVar("T")


@dataclass(frozen=True)
class Scan(Generic[T]):
    """What a scan found, and what it took.

    Attributes
    ----------
    results
        One an element.
    steps, work
        S and W: applications of the operator, one after the other and in all.
    critical_flops, flops
        What they cost: of the dearest of each stage, as stages wait for one another, and of all.
    bytes_sent
        From node to node. Elements are where they are needed first, and results end there.
    """

    results: list[T]
    steps: int
    work: int
    critical_flops: int
    flops: int
    bytes_sent: int


def run(
    planned: Schedule,
    elements: Sequence[T],
    combine: Callable[[T, T], T],
    identity: T,
    *,
    flops: Callable[[T, T], int] = lambda earlier, later: 0,
    size_bytes: Callable[[T], int] = lambda value: 0,
) -> Scan[T]:
    """Run a schedule on one machine, move by move, and price its moves and messages."""
    known = dict(enumerate(elements))
    steps = work = critical_flops = all_flops = 0
    for stage in planned.stages:
        each: list[int] = []
        for move in stage:
            left, right = known[move.left], known[move.right]
            each.append(flops(left, right))
            known[move.result] = combine(left, right)
        steps, work = steps + 1, work + len(each)
        critical_flops, all_flops = critical_flops + max(each), all_flops + sum(each)
    sent = sum(size_bytes(known[message.value]) for message in planned.messages)
    results = [identity if one is None else known[one] for one in planned.prefixes]
    return Scan(results, steps, work, critical_flops, all_flops, sent)

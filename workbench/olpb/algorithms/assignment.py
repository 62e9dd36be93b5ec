"""The task scheduler: which node gets which subtasks (OLPB, Sec. IV, Fig. 4).

Subtasks stand in the order of the scan. By runs, each node gets a contiguous run of them, which it
works through one after the other; the nodes' runs follow each other in the order of the pool. The
lengths are as near to the nodes' speeds as whole numbers are: they minimise the sum of (length^2 /
speed), so that equal nodes get equal runs, the first ones longer by one. In batches, nodes get one
subtask each, batch by batch, whatever their speeds.

Deviation: the paper gives a subtask "to a device that fits its requirement" and says no more. A
node here holds its whole run at once; its link is not weighed, since a scan sends from every node
what it sends from any.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from itertools import accumulate

import numpy as np

from workbench.olpb.algorithms.schedules import deal_batches
from workbench.olpb.costs.subtasks import Pool, Subtask
from workbench.utils.checks import UserError
from workbench.utils.numbers import bytes_as_text


class AssignmentError(UserError):
    """Subtasks that the nodes' memory does not hold."""


def assign(
    subtasks: Sequence[Subtask], pool: Pool, left: Collection[int] = ()
) -> tuple[range, ...]:
    """Runs of subtasks by node, for `schedules.schedule`; a node that gets none has an empty run.

    Parameters
    ----------
    subtasks
        In the order of the scan.
    left
        Nodes that have left: what was theirs is dealt to the others.
    """
    alive = _alive(pool, left)
    speeds = [pool.nodes[number].flops_per_s for number in alive]
    rooms = [pool.nodes[number].room for number in alive]
    _check_each(subtasks, max(rooms))
    held = [0, *accumulate(subtask.memory_bytes for subtask in subtasks)]
    ends = list(accumulate(_shares(len(subtasks), speeds)))
    starts = [0, *ends[:-1]]
    if any(
        held[end] - held[start] > room for start, end, room in zip(starts, ends, rooms, strict=True)
    ):
        ends = _fitting_ends(held, speeds, rooms)
    runs = dict(zip(alive, map(range, [0, *ends[:-1]], ends), strict=True))
    return tuple(runs.get(number, range(0)) for number in range(len(pool.nodes)))


def assign_batches(
    subtasks: Sequence[Subtask], pool: Pool, left: Collection[int] = ()
) -> tuple[range, ...]:
    """Subtasks by node, for `schedules.batched`: parameters as for `assign`."""
    alive = _alive(pool, left)
    own = dict(zip(alive, deal_batches(len(subtasks), len(alive)), strict=True))
    for number, dealt in own.items():
        needed = sum(subtasks[at].memory_bytes for at in dealt)
        if needed > pool.nodes[number].room:
            raise AssignmentError(
                f"node {number} would hold {bytes_as_text(needed)} in {len(dealt)} batches, more "
                "than it has; give nodes with more memory, or more of them, or runs of subtasks"
            )
    return tuple(own.get(number, range(0)) for number in range(len(pool.nodes)))


def _alive(pool: Pool, left: Collection[int]) -> list[int]:
    alive = [number for number in range(len(pool.nodes)) if number not in left]
    if not alive:
        raise UserError("no node is left to compute on; give a pool with more nodes")
    return alive


def _check_each(subtasks: Sequence[Subtask], largest: float) -> None:
    for place, subtask in enumerate(subtasks):
        if subtask.memory_bytes > largest:
            raise AssignmentError(
                f"subtask {place} ({', '.join(subtask.names)}) needs {subtask.memory_bytes:,} "
                f"bytes, and the largest node has {largest:,.0f}; give a node with more memory, "
                "fewer levels to a group, or a smaller batch"
            )


def _shares(count: int, speeds: Sequence[float]) -> list[int]:
    """Lengths of runs by Webster's method, which minimises the sum of length^2 / speed."""
    shares = [0] * len(speeds)
    waiting = [(1 / speed, at) for at, speed in enumerate(speeds)]
    heapq.heapify(waiting)
    for _ in range(count):
        at = waiting[0][1]
        shares[at] += 1
        heapq.heapreplace(waiting, ((2 * shares[at] + 1) / speeds[at], at))
    return shares


def _fitting_ends(
    held: Sequence[int], speeds: Sequence[float], rooms: Sequence[float]
) -> list[int]:
    """Ends of the best runs that fit, by dynamic programming over where a node's run begins.

    Axes: where a run ends, where it begins; `held` is the memory of all subtasks before a place.
    """
    count = len(held) - 1
    places, before = np.arange(count + 1), np.array(held, np.float64)
    lengths = places[:, None] - places
    needs = before[:, None] - before
    best = np.where(places == 0, 0.0, np.inf)
    begins = []
    for speed, room in zip(speeds, rooms, strict=True):
        cost = np.where((lengths >= 0) & (needs <= room), lengths**2 / speed, np.inf) + best
        latest = count - cost[:, ::-1].argmin(1)  # of equal ones, the shortest run
        begins.append(latest)
        best = cost[places, latest]
    if not np.isfinite(best[-1]):
        reached = int(np.flatnonzero(np.isfinite(best)).max())
        raise AssignmentError(
            f"the subtasks need {bytes_as_text(held[-1])}, and no runs of them in their order fit "
            f"on the {len(rooms)} nodes: subtask {reached} has no place. Give nodes with more "
            "memory, or more of them, or a smaller batch"
        )
    ends = [count]
    for latest in reversed(begins[1:]):
        ends.append(int(latest[ends[-1]]))
    return ends[::-1]

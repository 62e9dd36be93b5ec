"""Time of a scan on several nodes: the longest path through its moves and messages.

A node makes its moves in the order of stages; one starts when the node is free and has both
operands. A value leaves for another node when it is there, and arrives a delay later. A node makes
its elements, of a batch where the scan is in batches, before it combines them; after all its moves
it computes what follows from the elements' results, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.olpb.algorithms.schedules import Schedule, Stage
from workbench.olpb.costs.subtasks import Pool

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

DRAWS = 50
"""Draws of all delays, in the mean that stands for a time."""


@dataclass(frozen=True)
class Timing:
    """Time and amounts of a backward pass."""

    seconds: float  # until the last node is done; mean over draws
    each_s: tuple[float, ...]  # by draw of the delays; one where they are constant
    flops: float  # of all nodes, gradients of parameters included
    bytes_sent: float  # from node to node


@dataclass(frozen=True)
class Work:
    """Costs of a schedule's parts."""

    move_flops: Sequence[float]  # in the order of stages
    # Of each value, elements first, as a message; None: messages take their delay alone.
    value_bytes: Sequence[float] | None
    after_flops: Sequence[float]  # by element: what its node computes from its result
    element_flops: Sequence[float] | None = None  # to make each element; None: they are there

    def times(self, samples: int) -> Work:
        """The work of a batch, from that of one sample."""

        def batch(costs: Sequence[float] | None) -> list[float] | None:
            return None if costs is None else [samples * cost for cost in costs]

        return Work(
            [samples * flops for flops in self.move_flops],
            batch(self.value_bytes),
            [samples * flops for flops in self.after_flops],
            batch(self.element_flops),
        )


def scan_timing(
    planned: Schedule,
    work: Work,
    pool: Pool,
    *,
    random: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
) -> Timing:
    """Time a scan on a pool of as many nodes as it is for (OLPB, Sec. IV and VII).

    A `random` message takes ``Exp(1) * delay_s``, drawn `draws` times, others `delay_s`.
    """
    values = len(planned.homes)
    path = _path(planned)
    sizes = np.zeros(len(path.sent))
    if work.value_bytes is not None:
        sizes = np.asarray(work.value_bytes, float)[path.sent]
    per_byte = [node.sending_s(1.0) for node in pool.nodes]
    delays = np.ones((len(path.sent), 1))
    if random and pool.delay_s:
        delays = np.random.default_rng(seed).exponential(1.0, (len(path.sent), draws))
    on_way = np.zeros((len(path.sent) + 1, delays.shape[1]))  # the last: what is there already
    on_way[:-1] = delays * pool.delay_s
    on_way[:-1] += (sizes * np.asarray(per_byte)[path.senders])[:, None]
    speeds = np.asarray([node.flops_per_s for node in pool.nodes])
    at = np.zeros((values, delays.shape[1]))
    free = np.zeros((planned.nodes, delays.shape[1]))
    costs, first = np.asarray(work.move_flops, float), 0
    made = work.element_flops or ()

    def make(elements: Iterable[int]) -> None:
        for element in elements if made else ():
            home = planned.homes[element]
            free[home] += made[element] / speeds[home]
            at[element] = free[home]

    for number, rows in enumerate(path.stages):
        make(path.makes[number])
        nodes, lefts, rights, results, left_by, right_by = rows
        took = pool.dispatch_s + costs[first : first + len(nodes)] / speeds[nodes]
        both = np.maximum(at[lefts] + on_way[left_by], at[rights] + on_way[right_by])
        free[nodes] = at[results] = np.maximum(free[nodes], both) + took[:, None]
        first += len(nodes)
    make(path.makes[planned.steps])
    after = np.asarray(work.after_flops, float)
    for nodes, elements, values_at, by in path.ends:
        took = after[elements] / speeds[nodes]
        arrived = at[values_at] + on_way[by]
        free[nodes] = np.maximum(free[nodes], arrived) + took[:, None]
    each_s = free.max(axis=0, initial=0.0)
    return Timing(
        float(each_s.mean()),
        tuple(each_s.tolist()),
        float(costs.sum() + after.sum() + sum(made)),
        float(sizes.sum()),
    )


class _Path(NamedTuple):
    """A schedule as arrays.

    A stage has a row for each of nodes, left and right operands, results, and the messages that
    bring the operands, -1 where none does. An end has nodes, their next elements, the elements'
    results, and messages.
    """

    makes: tuple[tuple[int, ...], ...]  # elements that are made before each stage, and after all
    stages: tuple[Numbers, ...]
    ends: tuple[Numbers, ...]
    sent: Numbers
    senders: Numbers


@lru_cache(maxsize=256)
def _path(planned: Schedule) -> _Path:
    by = {(message.value, message.target): at for at, message in enumerate(planned.messages)}

    def moves(stage: Stage) -> Numbers:
        rows = [
            (*move, by.get((move.left, move.node), -1), by.get((move.right, move.node), -1))
            for move in stage
        ]
        return np.array(rows).T

    makes: list[list[int]] = [[] for _ in range(planned.steps + 1)]
    for element, number in enumerate(planned.made_after):
        makes[number].append(element)
    ends: list[list[tuple[int, int, int, int]]] = []
    done = [0] * planned.nodes
    for element, (home, prefix) in enumerate(zip(planned.homes, planned.prefixes, strict=False)):
        if prefix is not None:
            ends += [[]] if done[home] == len(ends) else []
            ends[done[home]].append((home, element, prefix, by.get((prefix, home), -1)))
            done[home] += 1
    return _Path(
        tuple(map(tuple, makes)),
        tuple(map(moves, planned.stages)),
        tuple(np.array(rows).T for rows in ends),
        np.array([message.value for message in planned.messages], int),
        np.array([message.source for message in planned.messages], int),
    )

"""Averages that several workers compute together, and who is paired with whom."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Values
    from workbench.decentralised.worker import Arrays, Worker

PAIRS = 12  # purpose of a stream, beside those of `workbench.training.repeatable`


async def all_gather(
    worker: Worker, others: Collection[int], turn: int, *own: Values
) -> list[Arrays]:
    """Send arrays to others; return theirs and the own, in the order of nodes.

    In that order all of a group add up alike, to the same bits. Others that are gone are left out.
    """
    sent = tuple(copied(array) for array in own)
    for to in others:
        worker.send_arrays(to, "weights", turn, *sent)
    gathered = {worker.node: sent, **await worker.receive_arrays("weights", turn, others)}
    return [gathered[node] for node in sorted(gathered)]


async def all_reduce(worker: Worker, turn: int, own: Values) -> Values:
    """Average a vector over all workers, each of which averages a share and sends all its mean.

    So a worker sends 2(n-1)/n vectors, as in `workbench.decentralised.butterfly`. While somebody is
    gone, everybody sends the whole vector; a share whose mean is lost stays the own one.
    """
    others = worker.alive
    if len(others) < worker.nodes - 1:
        vectors = [vector for (vector,) in await all_gather(worker, others, turn, own)]
        whole: Values = np.mean([one for one in vectors if len(one) == len(own)], axis=0)
        return whole
    edges = [len(own) * node // worker.nodes for node in range(worker.nodes + 1)]
    shares = [slice(*ends) for ends in pairwise(edges)]
    for to in others:
        worker.send_arrays(to, "weights", turn, copied(own[shares[to]]))
    mine, result = shares[worker.node], own.copy()
    parts = {worker.node: own[mine]}
    for node, (part,) in (await worker.receive_arrays("weights", turn, others)).items():
        parts[node] = part[mine] if len(part) == len(own) else part
    result[mine] = np.mean([parts[node] for node in sorted(parts)], axis=0)
    for to in others:
        worker.send_arrays(to, "mean", turn, copied(result[mine]))
    for node, (mean,) in (await worker.receive_arrays("mean", turn, others)).items():
        result[shares[node]] = mean
    return result


def copied(array: Values) -> Values:
    """Return a copy to send: read-only, since the receiver has the same one."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def partner(seed: int, turn: int, node: int, nodes: int) -> int | None:
    """The node's partner in a turn; None for the one that an odd number leaves over."""
    stream = np.random.SeedSequence(seed, spawn_key=(PAIRS, turn))
    order = np.random.default_rng(stream).permutation(nodes).tolist()
    beside: int = order.index(node) ^ 1
    return order[beside] if beside < nodes else None

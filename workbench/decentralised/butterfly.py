"""Butterfly all-reduce: every node of a group ends with the mean of all vectors.

Each of n nodes averages a share of 1/n of the vector: the others send it their part of that share,
it averages and sends the mean back. A node sends 2(n-1)/n of the vector and receives as much, the
least that any all-reduce takes (Patarasu and Yuan 2009; Hivemind's averaging, Ryabinin et al. 2021,
arXiv 2103.03239).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.runtime.context import Context
from workbench.runtime.messages import Message
from workbench.utils.checks import UserError, check_number, check_whole

PART, AVERAGE, JOIN, BEGIN = "part", "average", "join", "begin"


async def assemble(context: Context, group: Iterable[int] | None = None) -> None:
    """Return once all nodes of the group have joined its first node, which then tells them."""
    first, *others = _members(context, group)
    if context.node == first:
        for node in others:
            await context.receive(JOIN, sender=node)
        for node in others:
            context.send(node, Message(first, BEGIN, control=True))
    else:
        context.send(first, Message(context.node, JOIN, control=True))
        await context.receive(BEGIN, sender=first)


async def butterfly(
    context: Context,
    own: NDArray[Any] | float,
    group: Iterable[int] | None = None,
    *,
    chunks: int = 1,
    byte_s: float = 0.0,
) -> NDArray[Any] | None:
    """Average a vector with all nodes of a group; every one of them calls this.

    Parameters
    ----------
    own
        This node's vector, of one dimension; or its bytes, where only times matter.
    group
        Nodes that average; by default this node and all that it has links to.
    chunks
        Number of chunks in which a share is averaged. While a chunk travels, others are averaged;
        with 1, handling and transport take turns.
    byte_s
        Seconds of a core for every byte that a node sends, its encoding and decoding together.

    Returns
    -------
    numpy.ndarray or None
        The mean, the same bits on every node; None where only a size was given.
    """
    members = _members(context, group)
    check_whole("chunks", chunks, 1)
    if not check_number("byte_s", byte_s) >= 0:
        raise UserError(f"byte_s is {byte_s}; it must be at least 0 seconds")
    me = context.node
    others = [node for node in members if node != me]
    vector = own if isinstance(own, np.ndarray) else None
    result = None if vector is None else np.empty_like(vector)
    places = {} if vector is None else _places(vector, members, chunks)
    value_bytes = 0 if vector is None else vector.itemsize

    def size_bytes(owner: int, chunk: int) -> float:
        if isinstance(own, np.ndarray):
            place = places[owner, chunk]
            return float((place.stop - place.start) * value_bytes)
        return own / len(members) / chunks

    def part(owner: int, chunk: int) -> Any:
        return None if vector is None else vector[places[owner, chunk]].copy()

    async def send_parts() -> None:
        for chunk in range(chunks):
            await handle(sum(size_bytes(node, chunk) for node in others))
            for node in others:
                size = size_bytes(node, chunk)
                context.send(node, Message(me, PART, part(node, chunk), size))

    async def average() -> None:
        for chunk in range(chunks):
            # By sender, not as they come: links keep order, so a chunk's parts are never mistaken,
            # nor those of a node that is a round ahead; and sums have the same order everywhere.
            parts = [
                part(me, chunk)
                if node == me
                else (await context.receive(PART, sender=node)).payload
                for node in members
            ]
            mean = None
            if vector is not None and result is not None:
                mean = np.mean(parts, axis=0, dtype=vector.dtype)
                result[places[me, chunk]] = mean
            size = size_bytes(me, chunk)
            await handle(size * len(others))
            for node in others:
                context.send(node, Message(me, AVERAGE, mean, size))

    async def handle(sent_bytes: float) -> None:
        await context.compute(lambda: None, cost_s=byte_s * sent_bytes, label="averaging")

    sending, averaging = context.spawn(send_parts()), context.spawn(average())
    for chunk in range(chunks):
        for node in others:
            message = await context.receive(AVERAGE, sender=node)
            if result is not None:
                result[places[node, chunk]] = message.payload
    await sending
    await averaging
    return result


def _members(context: Context, group: Iterable[int] | None) -> list[int]:
    members = sorted({context.node, *context.peers} if group is None else {*group})
    if context.node not in members:
        raise UserError(f"{context.name} (node {context.node}) is not in the group {members}")
    return members


def _places(vector: NDArray[Any], members: list[int], chunks: int) -> dict[tuple[int, int], slice]:
    """Values that each member averages in each chunk; numbers differ by one at most."""
    if vector.ndim != 1:
        raise UserError(f"own is of shape {vector.shape}; give one dimension, a flat vector")
    count = len(members) * chunks
    edges = [len(vector) * number // count for number in range(count + 1)]
    keys = [(node, chunk) for node in members for chunk in range(chunks)]
    return {key: slice(*ends) for key, ends in zip(keys, pairwise(edges), strict=True)}

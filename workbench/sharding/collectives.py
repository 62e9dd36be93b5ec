"""Collective operations among a group of nodes, in butterfly form.

Each of n nodes owns a share of 1/n of a vector. In a reduce-scatter every node sends each other one
that one's share, and the owner adds them up; in an all-gather every owner sends its share to all
others. One after the other they are an all-reduce, in which a node sends 2(n-1)/n of the vector and
receives as much, the least that any all-reduce takes (Patarasu and Yuan 2009; Hivemind's averaging,
Ryabinin et al. 2021, arXiv 2103.03239).

All nodes of a group call the same operations in the same order, each with the same group. Values
are flat vectors of NumPy or PyTorch, or None, where only sizes travel. Sums are taken in the order
of the group, so that their bits do not depend on what arrives first. Operations of groups that
share two nodes have different topics if they may overlap in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.runtime.context import Context
from workbench.runtime.messages import Message
from workbench.utils.checks import UserError


async def assemble(context: Context, group: Sequence[int], topic: str = "group") -> None:
    """Wait until all nodes have joined the first one, which then lets all begin."""
    first, *others = group
    if context.node == first:
        for node in others:
            await context.receive(f"{topic}: join", sender=node)
        for node in others:
            context.send(node, Message(first, f"{topic}: begin", control=True))
    else:
        context.send(first, Message(context.node, f"{topic}: join", control=True))
        await context.receive(f"{topic}: begin", sender=first)


def share(size: int, nodes: int, place: int) -> slice:
    """Elements of a vector that the node at a place of the group owns."""
    return slice(size * place // nodes, size * (place + 1) // nodes)


async def reduce_scatter(
    context: Context,
    group: Sequence[int],
    value: Any,
    size_bytes: float,
    topic: str = "reduce",
    *,
    weights: Sequence[float] = (),
    byte_s: float = 0.0,
) -> Any:
    """Add up the nodes' vectors, and return this node's share of the sum, a new vector.

    Parameters
    ----------
    value
        This node's vector, which must not change until all have their shares; or None.
    size_bytes
        Bytes of the whole vector on the links, shared out exactly.
    weights
        Factors of the nodes' vectors, for a weighted mean instead of the sum.
    byte_s
        Seconds of a core for every byte that a node sends, its encoding and decoding together.
    """
    parts, own = _shares(value, len(group)), group.index(context.node)
    await _send(context, group, parts, size_bytes, topic=topic, byte_s=byte_s)
    received = await _receive(context, group, parts[own], topic=topic)
    return None if value is None else _sum(received, weights)


async def all_gather(
    context: Context,
    group: Sequence[int],
    value: Any,
    size_bytes: float,
    topic: str = "gather",
    *,
    byte_s: float = 0.0,
) -> None:
    """Write all nodes' shares into this node's vector, in which only its own share is up to date.

    Parameters are those of `reduce_scatter`; the own share must not change until all have it.
    """
    mine = _shares(value, len(group))[group.index(context.node)]
    await _gather(context, group, mine, value, size_bytes, topic=topic, byte_s=byte_s)


async def all_reduce(
    context: Context,
    group: Sequence[int],
    value: Any,
    size_bytes: float,
    topic: str = "all-reduce",
    *,
    weights: Sequence[float] = (),
    byte_s: float = 0.0,
) -> None:
    """Write the sum of all nodes' vectors, or their weighted mean, into each node's vector.

    Parameters are those of `reduce_scatter`; the vector may change as soon as this returns.
    """
    scattered = f"{topic}: part"
    mine = await reduce_scatter(
        context, group, value, size_bytes, scattered, weights=weights, byte_s=byte_s
    )
    gathered = f"{topic}: sum"
    await _gather(context, group, mine, value, size_bytes, topic=gathered, byte_s=byte_s)


async def _gather(
    context: Context,
    group: Sequence[int],
    mine: Any,
    value: Any,
    size_bytes: float,
    *,
    topic: str,
    byte_s: float,
) -> None:
    """Send the own share, and write all shares into the vector."""
    await _send(context, group, [mine] * len(group), size_bytes, topic=topic, byte_s=byte_s)
    parts = await _receive(context, group, mine, topic=topic)
    if value is not None:
        for at, part in enumerate(parts):
            value[share(len(value), len(group), at)] = part


async def _send(
    context: Context,
    group: Sequence[int],
    parts: Sequence[Any],
    size_bytes: float,
    *,
    topic: str,
    byte_s: float,
) -> None:
    """Send every other node the part for its place in the group."""
    part_bytes = size_bytes / len(group)
    if byte_s:
        cost_s = byte_s * part_bytes * (len(group) - 1)
        await context.compute(lambda: None, cost_s=cost_s, label="averaging")
    for node, part in zip(group, parts, strict=True):
        if node != context.node:
            context.send(node, Message(context.node, topic, part, part_bytes))


async def _receive(context: Context, group: Sequence[int], mine: Any, *, topic: str) -> list[Any]:
    """Receive the parts of all others, and return all parts in the order of the group.

    Links keep order, so a part by its sender is of no other round.
    """
    return [
        mine if node == context.node else (await context.receive(topic, sender=node)).payload
        for node in group
    ]


def _shares(value: Any, nodes: int) -> list[Any]:
    """Each node's share of a vector, as views."""
    if value is None:
        return [None] * nodes
    if getattr(value, "ndim", None) != 1:
        raise TypeError(f"a collective has {value!r}; give a flat vector of NumPy or PyTorch")
    return [value[share(len(value), nodes, at)] for at in range(nodes)]


def _sum(parts: Sequence[Any], weights: Sequence[float]) -> Any:
    """Sum or weighted mean, in order; equal weights become 1, which rounds nothing."""
    if weights and not (len(weights) == len(parts) and all(weight >= 0 for weight in weights)):
        raise UserError(f"weights are {weights}; give one of at least 0 for each of {len(parts)}")
    largest = max(weights, default=1.0)
    if not largest:  # none has a sample: gradients are all 0
        weights = ()
    total = parts[0] * (weights[0] / largest if weights else 1)
    for at, part in enumerate(parts[1:], start=1):
        total = total + (part * (weights[at] / largest) if weights else part)
    return total / (sum(weights) / largest) if weights else total

"""Butterfly all-reduce: what it takes until every node has the mean of all vectors.

Each of n nodes averages a share of 1/n of the vector: the others send it their part of that share,
it averages and sends the mean back. A node sends 2(n-1)/n of the vector and receives as much, the
least that any all-reduce takes (Patarasu and Yuan 2009; Hivemind's averaging, Ryabinin et al. 2021,
arXiv 2103.03239).
"""

from __future__ import annotations

from workbench.runtime.context import Context
from workbench.runtime.messages import Message

PART, AVERAGE, JOIN, BEGIN = "part", "average", "join", "begin"


async def assemble(context: Context) -> None:
    """Return once all nodes have joined the first one, which then tells them."""
    first, *others = sorted((context.node, *context.peers))
    if context.node == first:
        for node in others:
            await context.receive(JOIN, sender=node)
        for node in others:
            context.send(node, Message(first, BEGIN, control=True))
    else:
        context.send(first, Message(context.node, JOIN, control=True))
        await context.receive(BEGIN, sender=first)


async def butterfly(context: Context, size_bytes: float, *, byte_s: float = 0.0) -> None:
    """Average a vector of this size with all nodes that this one has links to; each calls this.

    Only sizes travel. `byte_s` are seconds of a core for every byte that a node sends, its encoding
    and decoding together.
    """
    others = sorted(context.peers)
    share_bytes = size_bytes / (len(others) + 1)

    async def send(topic: str) -> None:
        cost_s = byte_s * share_bytes * len(others)
        await context.compute(lambda: None, cost_s=cost_s, label="averaging")
        for node in others:
            context.send(node, Message(context.node, topic, size_bytes=share_bytes))

    async def receive(topic: str) -> None:
        for node in others:  # by sender: links keep order, so no round is mistaken for another
            await context.receive(topic, sender=node)

    async def average() -> None:
        await receive(PART)
        await send(AVERAGE)

    sending, averaging = context.spawn(send(PART)), context.spawn(average())
    await receive(AVERAGE)
    await sending
    await averaging

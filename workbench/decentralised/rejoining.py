"""How a node that has crashed and restarted gets a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.clusters import Cluster
    from workbench.runtime import Context


async def fetch(
    context: Context, cluster: Cluster, peers: Iterable[int], patience_s: float | None
) -> Message | None:
    """Ask peers with links both ways for a checkpoint, one after the other, until one answers."""
    for peer in peers:
        if not {(context.node, peer), (peer, context.node)} <= cluster.links.keys():
            continue
        context.send(peer, Message(context.node, "fetch", control=True))
        try:
            return await context.receive("checkpoint", sender=peer, timeout_s=patience_s)
        except TimeoutError:
            continue
    return None

"""All-gather: everyone in a group has the arrays of everyone in it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Values
    from workbench.decentralised.model_exchange.peer import Arrays, Peer


async def all_gather(peer: Peer, others: Collection[int], turn: int, *own: Values) -> list[Arrays]:
    """Send arrays to others; return theirs and the own, in the order of nodes.

    In that order all of a group add up alike, to the same bits. Others that are gone are left out.
    """
    sent = tuple(copied(array) for array in own)
    for to in others:
        peer.send(to, "weights", turn, *sent)
    gathered = {peer.node: sent, **await peer.receive("weights", turn, others)}
    return [gathered[node] for node in sorted(gathered)]


def copied(array: Values) -> Values:
    """Return a copy to send: read-only, since the receiver has the same one."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy

"""CHOCO-SGD (Koloskova, Stich and Jaggi 2019, arXiv 1902.00340, Alg. 2).

Every worker holds a copy x^_j of what each has published, 0 at first. In every iteration it takes
its step, publishes q_i = Q(x_i - x^_i), and moves by gamma * sum_j w_ij * (x^_j - x^_i), once all
q_j are added to the copies. Q keeps the largest `share` of the values; all w_ij are 1/n.

Deviation: failures, which the paper leaves open. A worker that misses a q_j leaves x^_j out of the
sum, asks for it, and is sent all of it with the next q_j; so is everyone by one that restarts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from workbench.decentralised.gradient_exchange.part import largest
from workbench.decentralised.model_exchange.peer import copied
from workbench.utils.checks import SHARE, check_fields

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Values
    from workbench.decentralised.model_exchange.peer import Peer


@dataclass(frozen=True)
class ChocoSgd:
    """CHOCO-SGD: publishes the largest changes of the model, and moves towards the peers' copies.

    The paper tunes `consensus_rate` (gamma), less for a smaller share.
    """

    share: float = field(default=0.01, metadata=SHARE)
    consensus_rate: float = field(default=0.03, metadata=SHARE)

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, peer: Peer) -> Copies:
        """Begin at a worker."""
        return Copies(self, peer)


class Copies:
    """A worker's copies of what all have published."""

    def __init__(self, options: ChocoSgd, peer: Peer) -> None:
        self.options, self.peer = options, peer
        self.copies: dict[int, Values] = {}
        self.asked: set[int] = set()  # peers that need all that this worker has published
        peer.on("missing", lambda sender, turn, arrays: self.asked.add(sender))

    async def learnt(self, iteration: int) -> None:
        """Take the step, publish what has changed most, and mix."""
        peer, copies = self.peer, self.copies
        peer.step()
        if not copies:
            known = [peer.node] if (late := iteration > 1) else range(peer.nodes)
            copies.update({node: np.zeros_like(peer.weights) for node in known})
            self.asked.update(peer.there if late else ())
        change, own = peer.weights - copies[peer.node], copies[peer.node]
        at = largest(change, self.options.share).astype(np.int32)
        sparse = (copied(at), copied(change[at]))
        own[at] += change[at]
        for to in peer.there:
            peer.send(to, "change", iteration, *((copied(own),) if to in self.asked else sparse))
            if to not in copies:
                peer.send(to, "missing", iteration)
        self.asked.clear()
        arrived = await peer.receive("change", iteration, peer.there)
        for node in copies.keys() - {peer.node, *arrived}:
            del copies[node]
        for node, (*places, values) in arrived.items():
            if not places:
                copies[node] = values.copy()
            elif node in copies:
                copies[node][places[0]] += values
        pull = np.mean(list(copies.values()), axis=0) - own
        peer.weights[:] += self.options.consensus_rate * pull

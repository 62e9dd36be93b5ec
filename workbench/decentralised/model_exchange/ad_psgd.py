"""AD-PSGD (Lian, Zhang, Zhang and Liu 2018, arXiv 1710.06952, Alg. 1): nobody waits for the slow.

With the gradient of its model, a worker averages the model with that of a random peer, which takes
the mean, too; then it applies the gradient, of the model before, to the mean.

Deviation: the paper's averaging is atomic, and lest workers wait for each other in a circle, only
those on one side of a bipartite graph begin one. Here any worker may, with any other: it sends its
model; the peer answers at once with its own and takes the mean, even while it computes or waits for
an answer itself; the first then adds half of answer less sent model, which makes it the mean unless
others have averaged with it meanwhile. So nobody waits in a circle, and once both have added their
half, the mean of all models is what it was. If a message is lost, one half stands alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.decentralised.model_exchange.peer import copied

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Values
    from workbench.decentralised.model_exchange.peer import Arrays, Peer


@dataclass(frozen=True)
class AdPsgd:
    """AD-PSGD: averages with one random peer at a time, without waiting for the others."""

    def __call__(self, peer: Peer) -> Averaging:
        """Begin at a worker."""
        return Averaging(peer)


class Averaging:
    """A worker that averages with one random peer an iteration."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        peer.on("ask", self._answer)

    async def learnt(self, iteration: int) -> None:
        """Average with a random peer, then take the step."""
        peer, there = self.peer, self.peer.there
        if there:
            chosen = there[int(peer.random.integers(len(there)))]
            sent = copied(peer.weights)
            peer.ask(chosen, "ask", iteration, sent)
            for (answer,) in (await peer.receive("answer", iteration, [chosen])).values():
                self._approach(answer, sent)
        peer.step()

    def _answer(self, sender: int, turn: int, arrays: Arrays) -> None:
        own = copied(self.peer.weights)
        self.peer.send(sender, "answer", turn, own)
        self._approach(arrays[0], own)

    def _approach(self, other: Values, own: Values) -> None:
        """Add half of what two models differ by."""
        self.peer.weights[:] += (other - own) / 2

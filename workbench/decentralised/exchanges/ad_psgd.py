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

from workbench.decentralised.exchange import MakeExchange, Step
from workbench.decentralised.exchanges.arrays import ArrayExchange, copied

if TYPE_CHECKING:
    from workbench.decentralised.exchanges.arrays import Arrays
    from workbench.decentralised.learner import Values
    from workbench.decentralised.worker import Worker


@dataclass(frozen=True)
class AdPsgd(MakeExchange):
    """AD-PSGD: averages with one random peer at a time, without waiting for the others."""

    in_lockstep = False

    def __call__(self, worker: Worker) -> PairAveraging:
        """Make a worker's part."""
        return PairAveraging(worker)


class PairAveraging(ArrayExchange):
    """Averaging of a worker with one random peer in each iteration."""

    async def begin(self) -> None:
        """Answer whoever asks for the model."""
        await super().begin()
        self.on_arrays("ask", self._answer)

    async def after_step(self, step: Step) -> None:
        """Average with a random peer, then take the step."""
        worker, peers, iteration = self.worker, self.worker.alive, step.iteration
        if peers:
            chosen = peers[int(worker.random.integers(len(peers)))]
            sent, asked_s = copied(worker.weights), worker.context.now_s()
            self.send(chosen, "ask", iteration, sent)
            answers = await self.receive("answer", iteration, [chosen], asked_s)
            for (answer,) in answers.values():
                self._approach(answer, sent)
        worker.learner.step()

    def _answer(self, sender: int, turn: int, arrays: Arrays) -> None:
        own = copied(self.worker.weights)
        self.send(sender, "answer", turn, own)
        self._approach(arrays[0], own)

    def _approach(self, other: Values, own: Values) -> None:
        """Add half of what two models differ by."""
        self.worker.weights[:] += (other - own) / 2

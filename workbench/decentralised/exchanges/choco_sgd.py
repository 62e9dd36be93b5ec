"""CHOCO-SGD (Koloskova, Stich and Jaggi 2019, arXiv 1902.00340, Alg. 2).

Every worker holds a copy x^_j of what each has published, 0 at first. In every iteration it takes
its step, publishes q_i = Q(x_i - x^_i), and moves by gamma * sum_j w_ij * (x^_j - x^_i), once all
q_j are added to the copies. Q keeps the largest `share` of the values; all w_ij are 1/n.

Deviation: failures, which the paper leaves open. A worker that misses a q_j leaves x^_j out of the
sum, asks for it, and is sent all of it with the next q_j. A worker that restarts sends all of
its own to everyone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from workbench.decentralised.exchange import MakeExchange, Step
from workbench.decentralised.exchanges.arrays import ArrayExchange, copied
from workbench.utils.checks import SHARE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.decentralised.learner import Values
    from workbench.decentralised.worker import Worker


@dataclass(frozen=True)
class ChocoSgd(MakeExchange):
    """CHOCO-SGD: publishes the largest changes of the model, and moves towards the peers' copies.

    The paper tunes `consensus_rate` (gamma), less for a smaller share.
    """

    share: float = field(default=0.01, metadata=SHARE)
    consensus_rate: float = field(default=0.03, metadata=SHARE)

    def __call__(self, worker: Worker) -> Copies:
        """Make a worker's part."""
        return Copies(self, worker)


class Copies(ArrayExchange):
    """A worker's copies of what all have published."""

    def __init__(self, options: ChocoSgd, worker: Worker) -> None:
        super().__init__(worker)
        self.options = options
        self.copies: dict[int, Values] = {}
        self.asked: set[int] = set()  # peers that need all that this worker has published

    async def begin(self) -> None:
        """Note who misses something."""
        await super().begin()
        self.on_arrays("missing", lambda sender, turn, arrays: self.asked.add(sender))

    async def after_step(self, step: Step) -> None:
        """Take the step, publish what has changed most, and mix."""
        worker, copies, iteration = self.worker, self.copies, step.iteration
        worker.learner.step()
        if not copies:
            known = [worker.node] if (late := iteration > 1) else range(worker.nodes)
            copies.update({node: np.zeros_like(worker.weights) for node in known})
            self.asked.update(worker.alive if late else ())
        change, own = worker.weights - copies[worker.node], copies[worker.node]
        at = largest(change, self.options.share).astype(np.int32)
        sparse = (copied(at), copied(change[at]))
        own[at] += change[at]
        for to in worker.alive:
            published = (copied(own),) if to in self.asked else sparse
            self.send(to, "change", iteration, *published)
            if to not in copies:
                self.send(to, "missing", iteration)
        self.asked.clear()
        arrived = await self.receive("change", iteration, worker.alive)
        for node in copies.keys() - {worker.node, *arrived}:
            del copies[node]
        for node, (*places, values) in arrived.items():
            if not places:
                copies[node] = values.copy()
            elif node in copies:
                copies[node][places[0]] += values
        pull = np.mean(list(copies.values()), axis=0) - own
        worker.weights[:] += self.options.consensus_rate * pull


def largest(values: Values, share: float) -> NDArray[np.intp]:
    """Positions, ascending, of the largest share by magnitude, at least 1; of equals the first.

    Found without sorting all: those above the smallest that is taken, then the first equal to it.
    """
    count = max(1, int(share * len(values)))
    magnitudes = np.abs(values)
    least = np.partition(magnitudes, -count)[-count]
    above = np.flatnonzero(magnitudes > least)
    equal = np.flatnonzero(magnitudes == least)[: count - len(above)]
    return np.sort(np.concatenate([above, equal]))

"""NoLoCo (Kolehmainen et al. 2025, arXiv 2506.10911): DiLoCo's rounds, averaged in random pairs.

After `period` steps of its own, a worker and its partner of this round exchange weights and slow
weights phi. With their outer gradients G, old slow weights less own weights, and n = 2 each takes

    delta <- alpha * delta - beta / n * sum_j G_j - gamma * (phi - 1/n * sum_j phi_j)
    phi <- phi + delta

and goes on from its phi. The last term keeps the workers together, which nothing else does.

Deviation: gamma is 0.7, as beta, which the authors' program takes for both; the inner optimiser is
the training's Sgd, not Adam; there is no pipeline, so none is routed at random. Of an odd number
one worker is alone in a round (n = 1), and so is one whose partner is gone. After a restart, phi is
what the worker fetched, delta is 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from workbench.decentralised.exchange import MakeExchange, Step
from workbench.decentralised.exchanges.arrays import ArrayExchange
from workbench.utils.checks import ABOVE_ZERO, BELOW_ONE, NOT_NEGATIVE, at_least

if TYPE_CHECKING:
    from workbench.decentralised.learner import Values
    from workbench.decentralised.worker import Worker

PAIRS = 12  # purpose of a stream, beside those of `workbench.training.repeatable`


@dataclass(frozen=True)
class NoLoCo(MakeExchange):
    """NoLoCo: rounds of local steps, as DiLoCo's, then an average with one random partner.

    A round has `period` local steps; `rate`, `momentum` and `consensus_rate` are beta, alpha and
    gamma.
    """

    period: int = field(default=50, metadata=at_least(1))
    rate: float = field(default=0.7, metadata=ABOVE_ZERO)
    momentum: float = field(default=0.5, metadata=BELOW_ONE)
    consensus_rate: float = field(default=0.7, metadata=NOT_NEGATIVE)

    def __call__(self, worker: Worker) -> PairedSteps:
        """Make a worker's part."""
        return PairedSteps(self, worker)


class PairedSteps(ArrayExchange):
    """A worker's slow weights, and its rounds."""

    def __init__(self, options: NoLoCo, worker: Worker) -> None:
        super().__init__(worker)
        self.options = options
        self.slow: Values | None = None
        self.delta: Values | None = None

    async def after_step(self, step: Step) -> None:
        """Take the local step; at the end of a round, average with the partner."""
        worker, options, iteration = self.worker, self.options, step.iteration
        if self.slow is None or self.delta is None:
            self.slow, self.delta = worker.weights.copy(), np.zeros_like(worker.weights)
        worker.learner.step()
        if iteration % options.period:
            return
        paired = partner(worker.job.seed, iteration, worker.node, worker.nodes)
        others = [paired] if paired in worker.alive else []
        pair = await self.all_gather(others, iteration, worker.weights, self.slow)
        weights, slow = (np.mean(arrays, axis=0) for arrays in zip(*pair, strict=True))
        self.delta = options.momentum * self.delta - options.rate * (slow - weights)
        self.delta -= options.consensus_rate * (self.slow - slow)
        self.slow = self.slow + self.delta
        worker.weights[:] = self.slow


def partner(seed: int, turn: int, node: int, nodes: int) -> int | None:
    """The node's partner in a turn; None for the node that an odd number leaves over."""
    stream = np.random.SeedSequence(seed, spawn_key=(PAIRS, turn))
    order = np.random.default_rng(stream).permutation(nodes).tolist()
    beside: int = order.index(node) ^ 1
    return order[beside] if beside < nodes else None

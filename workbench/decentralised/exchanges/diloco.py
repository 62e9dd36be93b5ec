"""DiLoCo (Douillard et al. 2023, arXiv 2311.08105, Alg. 1), and with it local SGD.

A worker takes `period` (H) steps of its own. Then the outer gradient, the mean over workers of old
global weights less own weights, moves the global weights by a step of SGD with Nesterov momentum,
and all go on from them. With an outer rate of 1 and no momentum the new weights are the mean: local
SGD (Stich 2019, arXiv 1805.09767).

Deviation: the inner optimiser is the training's Sgd, not AdamW. H is 50 by default, not the
paper's 500, which is for longer trainings. An all-reduce averages weights, of as many bytes as
outer gradients, and every worker takes the outer step itself; so workers whose weights differ at
first, or since one was gone, come together. A worker that is gone is left out of the mean; after
a restart its old global weights are those that it fetched, its momentum is 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.decentralised.exchange import MakeExchange, Step
from workbench.decentralised.exchanges.arrays import ArrayExchange
from workbench.training import Sgd
from workbench.utils.checks import at_least, check_kind

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.decentralised.worker import Worker

NESTEROV = Sgd(0.7, momentum=0.9, nesterov=True)
"""The paper's outer optimiser."""


@dataclass(frozen=True)
class DiLoCo(MakeExchange):
    """DiLoCo: rounds of local steps, then an outer step to the mean; local SGD takes the mean.

    Attributes
    ----------
    period
        Local steps of a round.
    outer
        Optimiser of the outer step; ``Sgd(1.0)`` makes it local SGD.
    """

    period: int = field(default=50, metadata=at_least(1))
    outer: Sgd = NESTEROV

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind("outer", self.outer, Sgd, "an Sgd, as in Sgd(0.7, momentum=0.9, nesterov=True)")

    def __call__(self, worker: Worker) -> OuterSteps:
        """Make a worker's part."""
        return OuterSteps(self, worker)


class OuterSteps(ArrayExchange):
    """A worker's copy of the global weights, and its rounds."""

    def __init__(self, options: DiLoCo, worker: Worker) -> None:
        super().__init__(worker)
        self.options = options
        self.slow: Tensor | None = None  # the global weights
        self.velocity: Tensor | None = None

    async def after_step(self, step: Step) -> None:
        """Take the local step; at the end of a round, the outer one."""
        import torch

        worker, outer = self.worker, self.options.outer
        if self.slow is None or self.velocity is None:
            self.slow = torch.from_numpy(worker.weights.copy())
            self.velocity = outer.start(self.slow)
        worker.learner.step()
        if step.iteration % self.options.period:
            return
        mean = await self.all_reduce(step.iteration, worker.weights)
        gradient = self.slow - torch.from_numpy(mean)
        outer.step(self.slow, gradient, self.velocity)
        worker.weights[:] = self.slow.numpy()

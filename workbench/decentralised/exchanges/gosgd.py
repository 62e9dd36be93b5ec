"""GoSGD as published (Blot, Picard, Cord and Thome 2016, Sec. 4; 2019): nobody waits for anybody.

Each node has a weight alpha, 1/n at first. Before a step it merges what has arrived: the mean of
its own model and the one that came, weighted by their alphas, which are added. After a step, with
probability p, it picks one of its peers, all equally likely, halves its alpha, and sends parameters
and alpha. Over nodes and messages in flight, the alphas sum to 1.

Deviation: the end, and failures, which the paper leaves open. A node that has finished merges what
still comes until all peers have finished, or been silent for `patience_s`. One that restarts
fetches a peer's model, epoch and half its alpha, or begins with alpha 0 if nobody answers: it then
takes over the first model that comes, and what it sends before that counts for nothing. The alpha
of a crashed node or a lost message is gone. On a link slower than its traffic every message in the
queue holds a copy of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from workbench.decentralised.exchange import Exchange, MakeExchange, Step
from workbench.decentralised.learner import Model, Updates
from workbench.utils.checks import UserError, between

if TYPE_CHECKING:
    from workbench.clusters import Cluster
    from workbench.decentralised.worker import Worker
    from workbench.runtime import Message


@dataclass(frozen=True)
class GoSgd(MakeExchange):
    """GoSGD: after a step, sends the model to a random peer, with a `probability`."""

    in_lockstep = False

    probability: float = field(default=0.1, metadata=between(0, 1))

    def __call__(self, worker: Worker) -> WeightedModels:
        """Make a worker's part."""
        return WeightedModels(self, worker)

    def check(self, cluster: Cluster) -> None:
        """Refuse a cluster with a node from which no link leads."""
        for node, name in enumerate(cluster.names):
            if len(cluster) > 1 and not cluster.targets(node):
                raise UserError(
                    f"no link leads from {name}; give it one, to send its model to a peer"
                )


class WeightedModel(NamedTuple):
    """A model in flight."""

    alpha: float
    iteration: int
    model: Model


class WeightedModels(Exchange):
    """A worker's weight, and what has arrived but is not merged yet.

    The program returns the weight.
    """

    def __init__(self, options: GoSgd, worker: Worker) -> None:
        super().__init__(worker)
        self.options = options
        self.alpha = 0.0 if worker.context.restarts else 1 / worker.nodes
        self.arrived: list[WeightedModel] = []

    async def begin(self) -> None:
        """Keep the models that come."""
        self.worker.on("model", self._keep)

    def _keep(self, message: Message) -> None:
        arrived: WeightedModel = message.payload
        self.worker.note_arrival(message, arrived.iteration, len(arrived.model.parameters))
        self.arrived.append(arrived)

    def merge(self) -> None:
        """Merge what has arrived."""
        arrived, self.arrived = self.arrived, []
        for alpha, _, model in arrived:
            total = self.alpha + alpha
            if alpha:  # 0 after a restart, or when halved a thousand times
                self.worker.learner.merge(model, alpha / total)
            self.alpha = total

    def before_step(self) -> Updates:
        """Merge what has arrived."""
        self.merge()
        return ()

    async def after_step(self, step: Step) -> None:
        """With the probability, send the model to a random peer."""
        worker, random = self.worker, self.worker.random
        peers = worker.context.peers
        if not peers or random.random() >= self.options.probability:
            return
        peer = peers[int(random.integers(len(peers)))]
        self.alpha /= 2
        weighted = WeightedModel(self.alpha, step.iteration, worker.learner.snapshot())
        worker.send_model(peer, "model", weighted, worker.job.iteration_factor)

    async def after_epoch(self, epoch: int) -> int:
        """Merge what has arrived."""
        self.merge()
        return epoch

    def state(self) -> float:
        """Half of the weight, for a worker that rejoins."""
        self.merge()
        self.alpha /= 2
        return self.alpha

    def resume(self, state: float | None) -> None:
        """Go on with a peer's half, or without any weight."""
        self.alpha += state or 0.0

    async def drain(self) -> float:
        """Merge what comes until all have finished or are gone."""
        await self.worker.until_all_are_done()
        self.merge()
        return self.alpha

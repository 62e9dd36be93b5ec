"""Gossip: one exchange an epoch under a mixing matrix, everyone waiting for the slowest.

EdgeGossip's paper runs GoSGD so (Han et al. 2021, Sec. 2.1): a node learns from its samples for an
epoch, sends its parameters to the peers that the matrix names, receives theirs, and goes on from
the weighted sum.

Deviation: failures, which the paper leaves open. A peer that is silent for `patience_s` is left out
of the average, the weights of the others renormalised (`Mixing.weights`), until it is heard again;
so is a model that a link has lost. A node whose peers have gone on without it joins their epoch;
one that has crashed first fetches a peer's model and epoch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import networkx as nx

from workbench.decentralised.exchange import Exchange, MakeExchange
from workbench.decentralised.mixing import Mixing, as_mixing
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from typing import Any

    from workbench.clusters import Cluster
    from workbench.decentralised.learner import Model
    from workbench.decentralised.worker import Worker
    from workbench.runtime import Message


@dataclass(frozen=True)
class Gossip(MakeExchange):
    """Gossip: one exchange an epoch, for which every node waits.

    Attributes
    ----------
    mixing
        Weights of the models: a graph such as ``ring(8)``, which gets Metropolis-Hastings weights;
        a doubly stochastic matrix; or a `Mixing`. It is kept as a `Mixing`.
    """

    mixing: Mixing

    in_lockstep = False

    def __init__(self, mixing: Any) -> None:
        object.__setattr__(self, "mixing", as_mixing(mixing))

    def __call__(self, worker: Worker) -> GossipRounds:
        """Make a worker's part."""
        return GossipRounds(self.mixing, worker)

    def check(self, cluster: Cluster) -> None:
        """Refuse a cluster of another size, or without a link that the mixing needs."""
        if len(self.mixing) != len(cluster):
            raise UserError(
                f"mixing is for {len(self.mixing)} nodes, not for {len(cluster)}; give a graph of "
                f"as many, such as Gossip(ring({len(cluster)}))"
            )
        for node in range(len(cluster)):
            for target in self.mixing.targets(node):
                cluster.link(node, target)

    @classmethod
    def along_links(cls, cluster: Cluster) -> Gossip:
        """Gossip along all of a cluster's links, by Metropolis-Hastings weights."""
        graph = nx.Graph()
        graph.add_nodes_from(range(len(cluster)))
        graph.add_edges_from(cluster.links)
        return cls(graph)


class GossipRounds(Exchange):
    """A worker's exchanges with its sources and targets in the mixing, one an epoch.

    The program returns the last epoch whose exchange it took part in.
    """

    def __init__(self, mixing: Mixing, worker: Worker) -> None:
        super().__init__(worker)
        self.mixing, self.last = mixing, 0
        self.sources, self.targets = mixing.sources(worker.node), mixing.targets(worker.node)
        self._arrived: defaultdict[int, dict[int, Model]] = defaultdict(dict)

    async def begin(self) -> None:
        """Keep the models that come."""
        self.worker.on("model", self._keep)

    def _keep(self, message: Message) -> None:
        epoch, model = message.payload
        self.worker.heartbeat.note(message.sender, "model", epoch)
        self._arrived[epoch][message.sender] = model

    async def after_epoch(self, epoch: int) -> int:
        """Exchange models, and mix; the epoch is that of peers that have gone on without it."""
        worker, newest = self.worker, self.worker.heartbeat.newest
        both_ways = [peer for peer in self.sources if peer in self.targets]
        epoch = max([epoch, *(newest(peer, "model") for peer in both_ways)])
        if self.targets:
            model = worker.learner.snapshot()
            for peer in self.targets:
                worker.send_model(peer, "model", (epoch, model))
        worker.heartbeat.sent["model"] = epoch
        await worker.until(
            lambda: all(
                newest(peer, "model") >= epoch or not worker.is_alive(peer) for peer in self.sources
            )
        )
        for past in [key for key in self._arrived if key < epoch]:
            del self._arrived[past]
        models = self._arrived.pop(epoch, {})
        worker.learner.mix(self.mixing.weights(worker.node, models), models)
        self.last = epoch
        return epoch

    def state(self) -> int:
        """The last epoch whose exchange it took part in."""
        return self.last

    def resume(self, state: int | None) -> None:
        """Let the others wait for no model of epochs that a peer has finished."""
        if state is not None:
            self.worker.heartbeat.sent["model"] = state

    async def drain(self) -> int:
        """Wait for peers that are gone to come back and fetch the model."""
        worker = self.worker
        if worker.patience_s < math.inf:
            worker.tell_done()
            if not all(map(worker.is_alive, self.sources)):
                await worker.context.sleep(worker.patience_s)
        return self.last

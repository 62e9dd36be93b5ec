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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.decentralised.learner import PeerLearner
from workbench.runtime import Message

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.decentralised.node import Batch, Node
    from workbench.decentralised.selecting import Epochs, Reports


class WeightedModel(NamedTuple):
    """A model in flight."""

    alpha: float
    parameters: Tensor
    reports: Reports
    buffers: Mapping[str, Tensor] = MappingProxyType({})  # weigh nothing on the links


@dataclass(eq=False)
class Share:
    """A node's weight, and what has arrived but is not merged yet."""

    alpha: float
    inbox: list[WeightedModel] = field(default_factory=list)

    def halve(self) -> float:
        """Give half of the weight away."""
        self.alpha /= 2
        return self.alpha


class GoSgd:
    """A node's exchanges with its peers; `share` keeps its weight, which the program returns."""

    def __init__(self, node: Node, source: Epochs, probability: float, share: Share) -> None:
        self.node, self.source, self.probability, self.share = node, source, probability, share
        self.context, self.heartbeat = node.context, node.heartbeat

    async def begin(self) -> None:
        """Listen, send heartbeats, and the model to a peer that restarts; or fetch one."""
        node, source, context, share = self.node, self.source, self.context, self.share
        if context.restarts:
            share.alpha, share.inbox = 0.0, []
            order = context.random.permutation(list(context.peers))
            if (checkpoint := await node.rejoin(order.tolist())) is not None:
                reports, share.alpha = checkpoint.more
                source.go_on(checkpoint.at, reports)
        node.start_heartbeats()
        node.on("model", lambda message: share.inbox.append(message.payload))
        node.on("report", lambda message: source.hear(message.payload))
        node.on("fetch", self._hand_over)
        if not context.restarts:
            self.report()
        await source.record_if_over()

    def work(self, batch: Batch) -> Callable[[PeerLearner], Any]:
        """Merge what has arrived, then take a step."""
        self.merge()
        return partial(PeerLearner.learn, batch=batch)

    def merge(self) -> None:
        """Merge what has arrived."""
        arrived, self.share.inbox = self.share.inbox, []
        for model in arrived:
            total = self.share.alpha + model.alpha
            if model.alpha:  # 0 after a restart, or when halved a thousand times
                share = model.alpha / total
                self.node.learner.merge(model.parameters, model.buffers, share)
            self.share.alpha = total
            self.source.hear(model.reports)

    async def learnt(self, loss: Any, took_s: float) -> None:
        """With `probability`, send the model to a random peer."""
        peers, random = self.context.peers, self.context.random
        if not peers or random.random() >= self.probability:
            return
        peer = peers[int(random.integers(len(peers)))]
        learner, reports = self.node.learner, dict(self.source.reports)
        model = WeightedModel(self.share.halve(), learner.snapshot(), reports, learner.buffers())
        self.context.send(peer, self.node.model_message("model", model))

    def report(self) -> None:
        """Send the reports to all peers."""
        if self.source.report():
            self.node.tell("report", dict(self.source.reports))

    def _hand_over(self, message: Message) -> None:
        self.merge()
        more = dict(self.source.reports), self.share.halve()
        self.node.hand_over(message.sender, self.source.epoch, more)

    async def epoch_ended(self) -> None:
        """Merge what has arrived, and record the epoch."""
        self.merge()
        self.report()
        await self.source.record()

    async def outlast(self) -> float:
        """Merge what comes until all sources have finished or are gone."""
        self.source.epoch = self.node.job.setup.epochs + 1
        heartbeat = self.heartbeat
        heartbeat.sent["done"] = 1  # in case that all messages are lost
        self.node.tell("done")
        while left_s := heartbeat.next_gone_s(
            peer for peer in heartbeat.sources if heartbeat.newest(peer, "done") < 1
        ):
            if (done := await self.node.receive("done", left_s)) is not None:
                heartbeat.note(done.sender, "done", 1)
        self.merge()
        return self.share.alpha

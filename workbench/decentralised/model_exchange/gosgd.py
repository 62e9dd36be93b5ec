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

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from workbench.decentralised.heartbeat import Heartbeat
from workbench.decentralised.participant import Job, Participant, Reports
from workbench.runtime import Message

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.runtime import Context, Program


class WeightedModel(NamedTuple):
    """A model in flight."""

    alpha: float
    parameters: Tensor
    reports: Reports


@dataclass(eq=False)
class Share:
    """A node's weight, and what has arrived but is not merged yet."""

    alpha: float
    inbox: list[WeightedModel] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Weight that is at this node."""
        return self.alpha + sum(model.alpha for model in self.inbox)

    def halve(self) -> float:
        """Give half of the weight away."""
        self.alpha /= 2
        return self.alpha


def gosgd(job: Job, probability: float, share: Share) -> Program:
    """Program of one node, whose weight `share` keeps; returns its last alpha."""
    first_alpha = share.alpha

    async def program(context: Context) -> float:
        participant, epochs = Participant(job, context), job.setup.epochs
        peers = Peers(participant, probability, share)
        share.alpha, share.inbox = 0.0 if context.restarts else first_alpha, []
        if context.restarts:
            order = context.random.permutation(list(context.peers))
            checkpoint = await participant.rejoin(order.tolist())
            if checkpoint is not None:
                participant.epoch, share.alpha = max(checkpoint.epoch, 1) - 1, checkpoint.alpha
        peers.start()
        if not context.restarts:
            peers.report()
        if participant.epoch >= epochs:  # the peer has finished
            participant.epoch = epochs
            await participant.note()
        while participant.epoch < epochs:
            await participant.learn(
                participant.epoch + 1, before=peers.merge, after=peers.maybe_send
            )
            peers.merge()
            peers.report()
            await participant.note()
        participant.epoch = epochs + 1
        await peers.outlast()
        return share.alpha

    return program


class Peers:
    """A node's exchanges with its peers."""

    def __init__(self, participant: Participant, probability: float, share: Share) -> None:
        self.participant, self.context = participant, participant.context
        self.probability, self.share = probability, share
        self.sources = participant.job.sources[participant.node]
        self.heartbeat = Heartbeat(
            self.context, participant.job.setup.patience_s, self.context.peers, self.sources
        )

    def start(self) -> None:
        """Listen, send heartbeats, and the model to a peer that restarts."""
        self.heartbeat.start()
        for task in (self._listen, self._listen_to_reports, self._serve):
            self.context.spawn(task())

    def merge(self) -> None:
        """Merge what has arrived."""
        arrived, self.share.inbox = self.share.inbox, []
        for model in arrived:
            total = self.share.alpha + model.alpha
            if model.alpha:  # 0 after a restart, or when halved a thousand times
                self.participant.learner.merge(model.parameters, model.alpha / total)
            self.share.alpha = total
            self.participant.hear(model.reports)

    def maybe_send(self) -> None:
        """With `probability`, send the model to a random peer."""
        peers, random = self.context.peers, self.context.random
        if not peers or random.random() >= self.probability:
            return
        peer = peers[int(random.integers(len(peers)))]
        parameters, reports = self.participant.learner.snapshot(), dict(self.participant.reports)
        model = WeightedModel(self.share.halve(), parameters, reports)
        self.context.send(peer, self.participant.job.message(self.participant.node, "model", model))

    def report(self) -> None:
        """Send the reports to all peers."""
        if self.participant.report():
            reports = dict(self.participant.reports)
            self._tell_all(Message(self.participant.node, "report", reports, control=True))

    def _tell_all(self, message: Message) -> None:
        for peer in self.context.peers:
            self.context.send(peer, message)

    async def _listen(self) -> None:
        while True:
            message = await self.context.receive("model")
            self.heartbeat.hear(message.sender)
            self.share.inbox.append(message.payload)

    async def _listen_to_reports(self) -> None:
        while True:
            message = await self.context.receive("report")
            self.participant.hear(message.payload)

    async def _serve(self) -> None:
        while True:
            request = await self.context.receive("fetch")
            self.heartbeat.hear(request.sender)
            self.merge()
            self.context.send(request.sender, self.participant.checkpoint(self.share.halve()))

    async def outlast(self) -> None:
        """Merge what comes until all sources have finished or are gone."""
        self._tell_all(Message(self.participant.node, "done", control=True))
        running = set(self.sources)
        while left_s := min(filter(None, map(self.heartbeat.left_s, running)), default=0.0):
            timeout_s = None if left_s == math.inf else left_s
            with contextlib.suppress(TimeoutError):
                done = await self.context.receive("done", timeout_s=timeout_s)
                running.discard(done.sender)
        self.merge()

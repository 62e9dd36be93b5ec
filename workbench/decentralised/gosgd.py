"""GoSGD as published (Blot, Picard, Cord and Thome 2016, Sec. 4; 2019): nobody waits for anybody.

Each node has a weight alpha, 1/n at first. Before a step it takes over what has arrived: the mean
of its own model and the one that came, weighted by their alphas, which are added. After a step,
with probability p, it picks one of the peers that it is linked with, all equally likely, halves its
alpha, and sends parameters and alpha. Over nodes and messages under way, the alphas sum to 1.

Deviation: the end, and failures, which the paper leaves open. A node that is through takes over
what still comes until all peers are through, or have given no sign of life for `patience_s`. One
that has crashed is given a peer's model, epoch and half its alpha; the alpha that a crash or a lost
message takes with it is gone. A link that is slower than what is sent over it holds a copy of the
model for every message that waits.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from workbench.decentralised.life import Job, Life, Reports
from workbench.decentralised.pulse import Pulse
from workbench.runtime import Message

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.runtime import Context, Program


class Half(NamedTuple):
    """A model on its way, with its weight."""

    alpha: float
    parameters: Tensor
    reports: Reports


@dataclass(eq=False)
class Share:
    """A node's weight, and what has arrived but is not taken over yet."""

    alpha: float
    inbox: list[Half] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Weight that is at this node."""
        return self.alpha + sum(half.alpha for half in self.inbox)

    def halve(self) -> float:
        """Give half of the weight away."""
        self.alpha /= 2
        return self.alpha


def gosgd(job: Job, probability: float, share: Share) -> Program:
    """Program of one node, whose weight `share` keeps; returns its last alpha."""
    first_alpha = share.alpha

    async def program(context: Context) -> float:
        life, epochs = Life(job, context), job.setup.epochs
        peers = Peers(life, probability, share)
        share.alpha, share.inbox = first_alpha, []
        if context.restarts:
            order = context.random.permutation(list(context.peers))
            welcome = await life.come_back(order.tolist())
            if welcome is not None:
                life.epoch, share.alpha = max(welcome.epoch, 1) - 1, welcome.alpha
        peers.start()
        if not context.restarts:
            peers.report()
        if life.epoch >= epochs:  # who was asked is through
            life.epoch = epochs
            await life.note()
        while life.epoch < epochs:
            await life.learn(life.epoch + 1, before=peers.merge, after=peers.maybe_send)
            peers.merge()
            peers.report()
            await life.note()
        life.epoch = epochs + 1
        await peers.outlast()
        return share.alpha

    return program


class Peers:
    """A node's dealings with the others."""

    def __init__(self, life: Life, probability: float, share: Share) -> None:
        self.life, self.context = life, life.context
        self.probability, self.share = probability, share
        self.sources = life.job.sources[life.node]
        self.pulse = Pulse(life, self.context.peers, self.sources)

    def start(self) -> None:
        """Listen, give signs of life, and the model to whoever comes back."""
        self.pulse.start()
        for task in (self._listen, self._listen_to_reports, self._serve):
            self.context.spawn(task())

    def merge(self) -> None:
        """Take over what has arrived."""
        arrived, self.share.inbox = self.share.inbox, []
        for half in arrived:
            total = self.share.alpha + half.alpha
            if half.alpha:  # halved a thousand times, a weight rounds to nothing
                self.life.learner.merge(half.parameters, half.alpha / total)
            self.share.alpha = total
            self.life.hear(half.reports)

    def maybe_send(self) -> None:
        """Send the model to somebody, or not."""
        peers, random = self.context.peers, self.context.random
        if not peers or random.random() >= self.probability:
            return
        peer = peers[int(random.integers(len(peers)))]
        parameters, reports = self.life.learner.snapshot(), dict(self.life.reports)
        half = Half(self.share.halve(), parameters, reports)
        self.context.send(peer, self.life.job.message(self.life.node, "model", half))

    def report(self) -> None:
        """Tell all peers what is to be told."""
        if self.life.report():
            reports = dict(self.life.reports)
            self._tell_all(Message(self.life.node, "report", reports, control=True))

    def _tell_all(self, message: Message) -> None:
        for peer in self.context.peers:
            self.context.send(peer, message)

    async def _listen(self) -> None:
        while True:
            message = await self.context.receive("model")
            self.pulse.hear(message.sender)
            self.share.inbox.append(message.payload)

    async def _listen_to_reports(self) -> None:
        while True:
            message = await self.context.receive("report")
            self.life.hear(message.payload)

    async def _serve(self) -> None:
        while True:
            request = await self.context.receive("fetch")
            self.pulse.hear(request.sender)
            self.merge()
            self.context.send(request.sender, self.life.welcome(self.share.halve()))

    async def outlast(self) -> None:
        """Stay until all that may still send are through or gone, taking over what comes."""
        self._tell_all(Message(self.life.node, "done", control=True))
        running = set(self.sources)
        while left_s := min(filter(None, map(self.pulse.left_s, running)), default=0.0):
            timeout_s = None if left_s == math.inf else left_s
            with contextlib.suppress(TimeoutError):
                done = await self.context.receive("done", timeout_s=timeout_s)
                running.discard(done.sender)
        self.merge()

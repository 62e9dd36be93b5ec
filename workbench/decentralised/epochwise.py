"""One exchange an epoch under a mixing matrix, everyone waiting for the slowest.

As EdgeGossip's paper runs GoSGD (Han et al. 2021, Sec. 2.1): a node learns from its samples for an
epoch, sends its parameters to the peers that the matrix names, receives theirs, and goes on from
the weighted sum.

Deviation: what happens when a peer is silent, which the paper leaves open. Slow peers are waited
for; who gives no sign of life for `patience_s` is left out of the average, the weights of the
others renormalised (`Mixing.weights`), until it is heard again. So is a model that a link has lost.
A node whose peers have gone on without it goes on with the epoch that they are in; one that has
crashed first fetches a peer's model and epoch. Nobody else loses anything.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from workbench.decentralised.life import Job, Life, Reports
from workbench.decentralised.pulse import Pulse
from workbench.runtime import Message

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.decentralised.mixing import Mixing
    from workbench.runtime import Context, Program


class Model(NamedTuple):
    """What is exchanged behind an epoch; before the first, reports alone."""

    epoch: int
    parameters: Tensor | None
    reports: Reports


def epochwise(job: Job, mixing: Mixing) -> Program:
    """Program of each node; returns the last epoch whose exchange it took part in."""

    async def program(context: Context) -> int:
        life, epochs = Life(job, context), job.setup.epochs
        exchange = Exchange(life, mixing)
        if context.restarts:
            welcome = await life.come_back(exchange.sources)
            life.epoch = 0 if welcome is None else max(welcome.epoch, 1) - 1
        exchange.start()
        if not context.restarts and life.report():
            await exchange.meet(0)
        if life.epoch >= epochs:  # all others are through
            life.epoch = epochs
            await life.note()
        while life.epoch < epochs:
            await life.learn(life.epoch + 1)
            life.report()
            life.epoch = await exchange.meet(life.epoch)
            await life.note()
        done, patience_s = life.epoch, job.setup.patience_s
        if patience_s is not None and exchange.misses_somebody:
            life.epoch = epochs + 1
            await context.sleep(patience_s)  # who comes back meanwhile is given the model
        return done

    return program


class Exchange:
    """A node's part in the exchanges.

    Attributes
    ----------
    sources, targets
        Peers whose models it takes something of, and those that take something of its own.
    """

    def __init__(self, life: Life, mixing: Mixing) -> None:
        self.life, self.context, self.mixing = life, life.context, mixing
        self.sources, self.targets = mixing.sources(life.node), mixing.targets(life.node)
        self.pulse = Pulse(life, self.targets, self.sources)
        self._arrived: defaultdict[int, dict[int, Tensor | None]] = defaultdict(dict)

    def start(self) -> None:
        """Give signs of life, and the model to whoever comes back."""
        self.pulse.start()
        self.context.spawn(self._serve())

    @property
    def misses_somebody(self) -> bool:
        """Whether a peer counts as gone."""
        return any(not self.pulse.left_s(peer) for peer in self.sources)

    async def meet(self, epoch: int) -> int:
        """Exchange models, or reports in epoch 0, and mix; the epoch in which this happened.

        That is a later one than given when peers that need this node have gone on without it.
        """
        if epoch:  # before the first nobody is ahead
            await self._read_what_is_there()
        both_ways = [peer for peer in self.sources if peer in self.targets]
        epoch = max([epoch, *(self.pulse.their_epochs[peer] for peer in both_ways)])
        self._send(epoch)
        await self._wait(epoch)
        for old in [one for one in self._arrived if one < epoch]:
            del self._arrived[old]
        arrived = self._arrived.pop(epoch, {})
        models = {peer: model for peer, model in arrived.items() if model is not None}
        if epoch:
            self.life.learner.mix(self.mixing.weights(self.life.node, models), models)
        return epoch

    def _send(self, epoch: int) -> None:
        job, node, reports = self.life.job, self.life.node, dict(self.life.reports)
        if epoch and self.targets:
            model = Model(epoch, self.life.learner.snapshot(), reports)
            message = job.message(node, "model", model)
        else:
            message = Message(node, "model", Model(epoch, None, reports), control=True)
        for peer in self.targets:
            self.context.send(peer, message)
        self.pulse.sent_epoch = epoch

    async def _wait(self, epoch: int) -> None:
        pulse = self.pulse
        while True:
            missing = [peer for peer in self.sources if pulse.their_epochs[peer] < epoch]
            left_s = min(filter(None, map(pulse.left_s, missing)), default=0.0)
            if not left_s:
                return
            timeout_s = None if left_s == math.inf else left_s
            with contextlib.suppress(TimeoutError):
                message = await self.context.receive("model", timeout_s=timeout_s)
                pulse.hear(message.sender)
                self._keep(message)

    async def _read_what_is_there(self) -> None:
        with contextlib.suppress(TimeoutError):
            while True:
                self._keep(await self.context.receive("model", timeout_s=0.0))

    def _keep(self, message: Message) -> None:
        model: Model = message.payload
        self.life.hear(model.reports)
        epochs = self.pulse.their_epochs
        epochs[message.sender] = max(model.epoch, epochs[message.sender])
        self._arrived[model.epoch][message.sender] = model.parameters

    async def _serve(self) -> None:
        while True:
            request = await self.context.receive("fetch")
            self.pulse.hear(request.sender)
            self.context.send(request.sender, self.life.welcome())

"""One exchange an epoch under a mixing matrix, everyone waiting for the slowest.

As EdgeGossip's paper runs GoSGD (Han et al. 2021, Sec. 2.1): a node learns from its samples for an
epoch, sends its parameters to the peers that the matrix names, receives theirs, and goes on from
the weighted sum.

Deviation: failures, which the paper leaves open. A peer that is silent for `patience_s` is left out
of the average, the weights of the others renormalised (`Mixing.weights`), until it is heard again;
so is a model that a link has lost. A node whose peers have gone on without it joins their epoch;
one that has crashed first fetches a peer's model and epoch.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from workbench.decentralised.heartbeat import Heartbeat
from workbench.decentralised.participant import Job, Participant, Reports
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
        participant, epochs = Participant(job, context), job.setup.epochs
        exchange = Exchange(participant, mixing)
        if context.restarts:
            checkpoint = await participant.rejoin(exchange.sources)
            participant.epoch = 0 if checkpoint is None else max(checkpoint.epoch, 1) - 1
        exchange.start()
        if not context.restarts and participant.report():
            await exchange.meet(0)
        if participant.epoch >= epochs:  # all others have finished
            participant.epoch = epochs
            await participant.note()
        while participant.epoch < epochs:
            await participant.learn(participant.epoch + 1)
            participant.report()
            participant.epoch = await exchange.meet(participant.epoch)
            await participant.note()
        done, patience_s = participant.epoch, job.setup.patience_s
        if patience_s is not None and exchange.misses_somebody:
            participant.epoch = epochs + 1
            await context.sleep(patience_s)  # a peer that restarts meanwhile can fetch the model
        return done

    return program


class Exchange:
    """A node's part in the exchanges with its sources and targets in the mixing."""

    def __init__(self, participant: Participant, mixing: Mixing) -> None:
        self.participant, self.context, self.mixing = participant, participant.context, mixing
        self.sources = mixing.sources(participant.node)
        self.targets = mixing.targets(participant.node)
        self.heartbeat = Heartbeat(
            self.context, participant.job.setup.patience_s, self.targets, self.sources
        )
        self._arrived: defaultdict[int, dict[int, Tensor | None]] = defaultdict(dict)

    def start(self) -> None:
        """Send heartbeats, and the model to whoever comes back."""
        self.heartbeat.start()
        self.context.spawn(self._serve())

    @property
    def misses_somebody(self) -> bool:
        """Whether a peer counts as gone."""
        return any(not self.heartbeat.left_s(peer) for peer in self.sources)

    async def meet(self, epoch: int) -> int:
        """Exchange models, or reports in epoch 0, and mix; returns the epoch of this exchange.

        A later one than `epoch` when peers that need this node have gone on without it.
        """
        if epoch:  # before the first nobody is ahead
            await self._read_arrived()
        both_ways = [peer for peer in self.sources if peer in self.targets]
        epoch = max([epoch, *(self.heartbeat.their_epochs[peer] for peer in both_ways)])
        self._send(epoch)
        await self._wait(epoch)
        for old in [one for one in self._arrived if one < epoch]:
            del self._arrived[old]
        arrived = self._arrived.pop(epoch, {})
        models = {peer: model for peer, model in arrived.items() if model is not None}
        if epoch:
            self.participant.learner.mix(self.mixing.weights(self.participant.node, models), models)
        return epoch

    def _send(self, epoch: int) -> None:
        node, reports = self.participant.node, dict(self.participant.reports)
        if epoch and self.targets:
            model = Model(epoch, self.participant.learner.snapshot(), reports)
            message = self.participant.job.message(node, "model", model)
        else:
            message = Message(node, "model", Model(epoch, None, reports), control=True)
        for peer in self.targets:
            self.context.send(peer, message)
        self.heartbeat.sent_epoch = epoch

    async def _wait(self, epoch: int) -> None:
        heartbeat = self.heartbeat
        while True:
            missing = [peer for peer in self.sources if heartbeat.their_epochs[peer] < epoch]
            left_s = min(filter(None, map(heartbeat.left_s, missing)), default=0.0)
            if not left_s:
                return
            timeout_s = None if left_s == math.inf else left_s
            with contextlib.suppress(TimeoutError):
                message = await self.context.receive("model", timeout_s=timeout_s)
                heartbeat.hear(message.sender)
                self._keep(message)

    async def _read_arrived(self) -> None:
        with contextlib.suppress(TimeoutError):
            while True:
                self._keep(await self.context.receive("model", timeout_s=0.0))

    def _keep(self, message: Message) -> None:
        model: Model = message.payload
        self.participant.hear(model.reports)
        epochs = self.heartbeat.their_epochs
        epochs[message.sender] = max(model.epoch, epochs[message.sender])
        self._arrived[model.epoch][message.sender] = model.parameters

    async def _serve(self) -> None:
        while True:
            request = await self.context.receive("fetch")
            self.heartbeat.hear(request.sender)
            self.context.send(request.sender, self.participant.checkpoint())

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

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.decentralised.learner import PeerLearner
from workbench.runtime import Message

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.decentralised.mixing import Mixing
    from workbench.decentralised.node import Batch, Node
    from workbench.decentralised.selecting import Epochs, Reports


class Model(NamedTuple):
    """What is exchanged behind an epoch; before the first, reports alone."""

    epoch: int
    parameters: Tensor | None
    buffers: Mapping[str, Tensor]  # weigh nothing on the links
    reports: Reports


class Epochwise:
    """A node's part in the exchanges with its sources and targets in the mixing.

    The program returns the last epoch whose exchange it took part in.
    """

    def __init__(self, node: Node, source: Epochs, mixing: Mixing) -> None:
        self.node, self.source, self.mixing = node, source, mixing
        self.heartbeat = node.heartbeat
        self.sources, self.targets = mixing.sources(node.node), mixing.targets(node.node)
        self._arrived: defaultdict[int, dict[int, Model]] = defaultdict(dict)

    async def begin(self) -> None:
        """Send heartbeats, and the model to whoever comes back; after a restart, fetch one."""
        source, restarts = self.source, self.node.context.restarts
        if restarts and (checkpoint := await self.node.rejoin(self.sources)) is not None:
            source.go_on(checkpoint.at, checkpoint.more)
        self.node.start_heartbeats()
        self.node.on("fetch", self._hand_over)
        if not restarts and source.report():
            await self.meet(0)
        await source.record_if_over()

    def work(self, batch: Batch) -> Callable[[PeerLearner], Any]:
        """Take a step."""
        return partial(PeerLearner.learn, batch=batch)

    async def learnt(self, loss: Any, took_s: float) -> None:
        """Go on."""

    async def epoch_ended(self) -> None:
        """Exchange models, and record the epoch."""
        self.source.report()
        self.source.epoch = await self.meet(self.source.epoch)
        await self.source.record()

    async def outlast(self) -> int:
        """Where somebody is gone, wait for it to come back."""
        done, node = self.source.epoch, self.node
        if any(not self.heartbeat.left_s(peer) for peer in self.sources):
            self.source.epoch = node.job.setup.epochs + 1
            await node.context.sleep(node.patience_s)  # for a peer to fetch the model
        return done

    def _hand_over(self, message: Message) -> None:
        self.node.hand_over(message.sender, self.source.epoch, dict(self.source.reports))

    async def meet(self, epoch: int) -> int:
        """Exchange models, or reports in epoch 0, and mix; returns the epoch of this exchange.

        A later one than `epoch` when peers that need this node have gone on without it.
        """
        if epoch:  # before the first nobody is ahead
            while (message := await self.node.receive("model", 0.0)) is not None:
                self._keep(message)
        both_ways = [peer for peer in self.sources if peer in self.targets]
        epoch = max([epoch, *(self.heartbeat.newest(peer, "model") for peer in both_ways)])
        self._send(epoch)
        await self._wait(epoch)
        for old in [one for one in self._arrived if one < epoch]:
            del self._arrived[old]
        arrived = self._arrived.pop(epoch, {})
        models = {
            peer: (model.parameters, model.buffers)
            for peer, model in arrived.items()
            if model.parameters is not None
        }
        if epoch:
            self.node.learner.mix(self.mixing.weights(self.node.node, models), models)
        return epoch

    def _send(self, epoch: int) -> None:
        reports = dict(self.source.reports)
        if epoch and self.targets:
            learner = self.node.learner
            model = Model(epoch, learner.snapshot(), learner.buffers(), reports)
            message = self.node.model_message("model", model)
        else:
            message = Message(
                self.node.node, "model", Model(epoch, None, {}, reports), control=True
            )
        for peer in self.targets:
            self.node.context.send(peer, message)
        self.heartbeat.sent["model"] = epoch

    async def _wait(self, epoch: int) -> None:
        heartbeat = self.heartbeat
        while left_s := heartbeat.next_gone_s(
            peer for peer in self.sources if heartbeat.newest(peer, "model") < epoch
        ):
            if (message := await self.node.receive("model", left_s)) is not None:
                heartbeat.hear(message.sender)
                self._keep(message)

    def _keep(self, message: Message) -> None:
        model: Model = message.payload
        self.source.hear(model.reports)
        self.heartbeat.note(message.sender, "model", model.epoch)
        self._arrived[model.epoch][message.sender] = model

"""A node of a training without a server: one loop by iterations, and how a node rejoins.

What a node learns from is its `Source`, what it exchanges its `Exchange`. An epoch is a count that
a source may have.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from workbench.decentralised.heartbeat import Heartbeat
from workbench.decentralised.learner import PeerLearner
from workbench.decentralised.recorder import Arrival
from workbench.runtime import Message, Synchronized

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from workbench.decentralised.setup import PeerSetup
    from workbench.runtime import Context
    from workbench.training import Evaluation

    Batch = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PeerJob:
    """A training job: what all nodes of a run know."""

    setup: PeerSetup
    batch_size: int  # at first
    sample_s: Sequence[float]  # of learning from a sample at speed 1, by node
    tensor_bytes: tuple[float, ...] = ()  # of a model on the links, if tensors count there
    host_s: float = 0.0  # of every iteration
    stands_for: float = 1.0  # iterations of a longer training

    def evaluates(self, epoch: int) -> bool:
        """Whether models are evaluated at the end of an epoch."""
        return not epoch % self.setup.evaluate_every or epoch == self.setup.epochs


class Checkpoint(NamedTuple):
    """A node's model, such as a node that rejoins begins with."""

    at: int  # the sender's epoch, one more than the last when it has finished; or its iteration
    parameters: Tensor
    buffers: Mapping[str, Tensor]  # weigh nothing on the links, as in `workbench.training`
    more: Any = None  # what the exchange needs beside


class Source(Protocol):
    """What a node learns from."""

    @property
    def over(self) -> bool:
        """Whether the node has finished."""

    @property
    def label(self) -> str:
        """Of the next batch in the trace."""

    @property
    def epoch_over(self) -> bool:
        """Whether the last batch of an epoch was the latest."""

    async def next(self) -> Batch | None:
        """Choose the next batch; None in an epoch without any."""

    def learnt(self, samples: int) -> None:
        """Count a batch that was learnt from."""


class Exchange(Protocol):
    """What a node exchanges, and when it goes on."""

    async def begin(self) -> None:
        """Listen; after a restart, rejoin."""

    def work(self, batch: Batch) -> Callable[[PeerLearner], Any]:
        """What is computed on a batch, with all that has arrived when that begins."""

    async def learnt(self, loss: Any, took_s: float) -> None:
        """Exchange behind a batch, which took so long, and wait until the next may begin."""

    async def epoch_ended(self) -> None:
        """Exchange at the end of an epoch, and record it."""

    async def outlast(self) -> Any:
        """Serve the others until they need nothing more; the program's result."""


class Node:
    """A node from its start, or restart, to its crash or end; `state` outlives a crash."""

    def __init__(
        self,
        job: PeerJob,
        state: Synchronized[PeerLearner],
        context: Context,
        targets: Sequence[int],
        sources: Iterable[int],
    ) -> None:
        self.job, self.state, self.context, self.node = job, state, context, context.node
        self.patience_s = math.inf if job.setup.patience_s is None else job.setup.patience_s
        if context.restarts:  # a crash loses what a node holds
            self.learner.begin(context.restarts)
        self.heartbeat = Heartbeat(context, self.patience_s, targets, sources)
        self._waiting = False

    async def run(self, source: Source, exchange: Exchange) -> Any:
        """Learn until the source is over."""
        context, times = self.context, self.job.stands_for
        await exchange.begin()
        while not source.over:
            batch = await source.next()
            if batch is not None:
                began_s, work = context.now_s(), partial(exchange.work, batch)
                loss = await self.timed(work, len(batch), source.label, times)
                source.learnt(len(batch))
                await exchange.learnt(loss, context.now_s() - began_s)
            if source.epoch_over:
                await exchange.epoch_ended()
        return await exchange.outlast()

    @property
    def learner(self) -> PeerLearner:
        """Its model and optimiser, once the pending computation is done."""
        return self.state.value

    @property
    def up_to_date(self) -> PeerLearner:
        """The same, with all that has arrived and is to be added."""
        return self.learner

    async def timed(
        self,
        begin: Callable[[], Callable[[PeerLearner], Any]],
        samples: int,
        label: str,
        times: float = 1.0,
    ) -> Any:
        """Compute something on a batch of this size, in the seconds of this many iterations.

        `begin` is called where the computation begins, and returns it.
        """
        job = self.job
        if job.host_s:
            await self.context.sleep(job.host_s * times)
        return await self.context.compute(
            begin(),
            cost_s=samples * job.sample_s[self.node] * times,
            lane="learn",
            label=label,
            on=self.state,
        )

    async def evaluate(self, **given: Any) -> Evaluation:
        """Evaluate the model, which takes no virtual time and leaves no trace."""
        return await self.context.compute(
            partial(PeerLearner.evaluate, **given), cost_s=0.0, lane="", on=self.state
        )

    def on(self, topic: str, act: Callable[[Message], None]) -> None:
        """Have every message of a topic handled as it arrives."""
        self.context.spawn(self._serve(topic, act))

    async def _serve(self, topic: str, act: Callable[[Message], None]) -> None:
        while True:
            message = await self.context.receive(topic)
            self.heartbeat.hear(message.sender)
            act(message)
            if self._waiting:
                self._waiting = False
                self.context.send(self.node, Message(self.node, "wake", control=True))

    def start_heartbeats(self) -> None:
        """Send and receive heartbeats from now on, where messages may be lost."""
        self.heartbeat.start()
        if self.patience_s < math.inf:
            self.on("heartbeat", self.heartbeat.take)

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until something holds, for as long as a peer that is there may bring it about.

        Where messages may be lost, a peer is there until it was silent for the patience; and once
        all have only waited for `heartbeat.QUIET` times as long, nobody brings it about.
        """
        heartbeat = self.heartbeat
        heartbeat.wait(waits=True)
        self.look_around()
        while not met():
            left_s = min(heartbeat.next_gone_s(self.there), heartbeat.quiet_s())
            if self.patience_s < math.inf and not left_s:
                break
            self._waiting = True
            await self.receive("wake", left_s or math.inf)
            self._waiting = False
            self.look_around()
        heartbeat.wait(waits=False)

    async def receive(
        self, topic: str, within_s: float, sender: int | None = None
    ) -> Message | None:
        """Wait for a message; None if none comes in time."""
        timeout_s = None if within_s == math.inf else within_s
        with contextlib.suppress(TimeoutError):
            return await self.context.receive(topic, sender=sender, timeout_s=timeout_s)
        return None

    def has_sent(self, peer: int, topic: str, iteration: int) -> bool:
        """Whether all that a peer sends of a topic in an iteration has arrived, or is lost."""
        newest = self.heartbeat.newest
        return max(newest(peer, topic), newest(peer, "iteration")) >= iteration

    def look_around(self) -> None:
        """Find out which peers are gone, and which are back."""

    @property
    def there(self) -> tuple[int, ...]:
        """Peers that are not gone, ascending."""
        return tuple(self.context.peers)

    def heard(self, message: Message, iteration: int, values: int) -> None:
        """Record what a peer has sent in one of its iterations."""
        size_bytes = int(message.size_bytes)
        self.context.record(Arrival(message.sender, message.topic, iteration, values, size_bytes))

    def tell(self, topic: str, payload: Any = None, to: int | None = None) -> None:
        """Send a few numbers to a peer, or to all that are there."""
        message = Message(self.node, topic, payload, control=True)
        for peer in self.there if to is None else (to,):
            self.context.send(peer, message)

    def send(self, to: int, topic: str, payload: Any, size_bytes: float) -> None:
        """Send a peer something that has a size."""
        self.context.send(to, Message(self.node, topic, payload, size_bytes))

    def model_message(self, topic: str, payload: Any) -> Message:
        """A message of a model's size."""
        sizes = self.job.tensor_bytes
        size_bytes = sum(sizes) if sizes else self.learner.flat.parameters.nbytes
        return Message(self.node, topic, payload, size_bytes, sizes)

    def hand_over(self, to: int, at: int, more: Any) -> None:
        """Send the model to a node that rejoins."""
        self.context.send(to, self.model_message("checkpoint", self.checkpoint(at, more)))

    def checkpoint(self, at: int, more: Any = None) -> Checkpoint:
        """Copy the model."""
        learner = self.up_to_date
        return Checkpoint(at, learner.snapshot(), learner.buffers(), more)

    async def rejoin(self, peers: Iterable[int]) -> Checkpoint | None:
        """Ask peers with links both ways for the model, one after the other, until one answers.

        A node that nobody answers begins with the first model.
        """
        links = self.job.setup.network.links
        for peer in peers:
            if not {(self.node, peer), (peer, self.node)} <= links.keys():
                continue
            self.tell("fetch", to=peer)
            if (message := await self.receive("checkpoint", self.patience_s, peer)) is not None:
                checkpoint: Checkpoint = message.payload
                self.learner.adopt(checkpoint.parameters, checkpoint.buffers)
                return checkpoint
        return None

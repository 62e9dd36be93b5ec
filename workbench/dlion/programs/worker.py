"""A worker among its peers: its model, what it knows of them, and how it waits for them.

Deviation: failures, which the paper leaves open. With `patience_s` nobody waits longer than that
for anything, and a peer that is silent for so long counts as gone until it is heard again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workbench.decentralised.heartbeat import Heartbeat
from workbench.dlion.algorithms.synchronisation import Progress
from workbench.runtime import Message
from workbench.training.batches import Draw

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Part
    from workbench.decentralised.learner import Learner
    from workbench.dlion.programs.job import Job
    from workbench.runtime import Context


class Worker:
    """A worker from its start, or restart, to its crash or end.

    Attributes
    ----------
    progress
        Its own and its peers'.
    samples, global_batch
        In its present batch, and in all workers' together.
    """

    def __init__(self, job: Job, context: Context) -> None:
        self.job, self.context, self.node = job, context, context.node
        setup = job.setup
        if context.restarts:  # a crash loses what a node holds
            self.learner.begin(context.restarts)
        self.progress = Progress(newest=dict.fromkeys(context.peers, 0))
        self.heartbeat = Heartbeat(context, setup.patience_s, context.peers, context.peers)
        self.draw = Draw(setup.held[self.node], setup.seed, self.node, context.restarts)
        self.samples, self.global_batch = job.local_batch, job.local_batch * setup.nodes
        self.inbox = job.inboxes[self.node]
        self.inbox.clear()
        self._waiting = False

    @property
    def there(self) -> tuple[int, ...]:
        """Peers that are not gone, ascending."""
        return tuple(self.progress.newest)

    @property
    def learner(self) -> Learner:
        """Its model, once the pending computation is done."""
        return self.job.learners[self.node].value

    @property
    def up_to_date(self) -> Learner:
        """Its model, with all gradients that have arrived."""
        learner = self.learner
        learner.add(self.take_inbox())
        return learner

    def take_inbox(self) -> tuple[tuple[Part, float], ...]:
        """Empty the inbox."""
        taken = tuple(self.inbox)
        self.inbox.clear()
        return taken

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

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until something holds; where messages may be lost, no longer than the patience."""
        patience_s, context = self.job.setup.patience_s, self.context
        ends_s = math.inf if patience_s is None else context.now_s() + patience_s
        while not met() and (left_s := ends_s - context.now_s()) > 0:
            self._waiting = True
            with contextlib.suppress(TimeoutError):
                await context.receive("wake", timeout_s=None if left_s == math.inf else left_s)
            self._waiting = False
            self.look_around()

    def look_around(self) -> None:
        """Find out which peers are gone, and which are back."""
        if self.job.setup.patience_s is not None:
            newest, now = self.progress.newest, self.progress.iteration
            self.progress.newest = {
                peer: newest.get(peer, now)
                for peer in self.context.peers
                if self.heartbeat.left_s(peer)
            }

    def heard(self, message: Message, iteration: int, values: int) -> None:
        """Note what a peer has sent in one of its iterations."""
        newest = self.progress.newest
        if message.sender in newest:
            newest[message.sender] = max(iteration, newest[message.sender])
        self.job.recorder.heard(self.context.now_s(), self.node, message, iteration, values)

    def tell(self, topic: str, payload: Any = None, to: int | None = None) -> None:
        """Send a few numbers to a peer, or to all that are there."""
        message = Message(self.node, topic, payload, control=True)
        for peer in self.there if to is None else (to,):
            self.context.send(peer, message)

    def send(
        self, to: int, topic: str, payload: Any, size_bytes: float, *, times: float = 1.0
    ) -> None:
        """Send a peer something that has a size, in the place of so many messages."""
        self.context.send(to, Message(self.node, topic, payload, size_bytes * times))

    async def timed(
        self, begin: Callable[[], Callable[[Learner], Any]], samples: int, *, times: float = 1.0
    ) -> Any:
        """Compute something on a batch of so many samples, in the seconds of so many iterations.

        `begin` is called where the computation begins, and returns it.
        """
        if self.job.host_s:
            await self.context.sleep(self.job.host_s * times)
        return await self.context.compute(
            begin(),
            cost_s=samples * self.job.sample_s * times,
            lane="learn",
            label=str(self.progress.iteration + 1),
            on=self.job.learners[self.node],
        )

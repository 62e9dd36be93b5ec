"""A worker among its peers: its model, who is alive, what it sends and waits for.

Deviation: failures, which papers leave open. With `patience_s` nobody waits for what is lost, and a
peer that is silent for so long counts as gone until it is heard again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.decentralised.heartbeat import Heartbeat
from workbench.decentralised.job import Job, Progress, Synchronisation, asynchronous
from workbench.decentralised.learner import PeerLearner
from workbench.decentralised.recorder import Arrival
from workbench.runtime import Message, Synchronized

if TYPE_CHECKING:
    from workbench.decentralised.learner import Addend, Updates, Values
    from workbench.runtime import Context
    from workbench.training import Evaluation


class Worker:
    """A worker from its start, or restart, to its crash or end.

    Attributes
    ----------
    node, nodes
        Its index, and the number of nodes.
    learner
        Model and optimiser, once the pending computation is done.
    random
        The node's own generator.
    progress
        Its own progress and its peers'.
    inbox
        Updates from peers that are not added to the model yet, each with its factor.
    held_back
        Whether `synchronisation` does not allow the next iteration yet.
    """

    def __init__(
        self,
        job: Job,
        state: Synchronized[PeerLearner],
        context: Context,
        synchronisation: Synchronisation = asynchronous,
    ) -> None:
        self.job, self._state, self.context, self.node = job, state, context, context.node
        self.nodes, self.random = len(job.network), context.random
        self.synchronisation = synchronisation
        self.patience_s = job.patience_s
        if context.restarts:  # a crash loses what a node holds
            self.learner.begin(context.restarts)
        links = job.network.links
        heard = [source for source, target in links if target == self.node]
        self.heartbeat = Heartbeat(context, self.patience_s, context.peers, heard)
        self.progress = Progress(newest=dict.fromkeys(context.peers, 0))
        self.inbox: list[tuple[Addend, float]] = []
        self.held_back = False
        self._waiting = False

    def listen(self) -> None:
        """Send and receive heartbeats from now on."""
        self.heartbeat.start()
        if self.patience_s < math.inf:
            self.on("heartbeat", self.heartbeat.take)
        self.on("done", lambda message: self.heartbeat.note(message.sender, "done", 1))

    def resume(self, iteration: int) -> None:
        """Go on after an iteration, as if all peers had reached it."""
        self.progress.iteration = self.heartbeat.sent["iteration"] = iteration
        self.progress.newest = dict.fromkeys(self.context.peers, iteration)

    # --- The model ------------------------------------------------------------------------------

    @property
    def learner(self) -> PeerLearner:
        """Model and optimiser, once the pending computation is done."""
        return self._state.value

    @property
    def up_to_date(self) -> PeerLearner:
        """Model and optimiser, with all updates that have arrived."""
        learner = self.learner
        learner.add(self.take_inbox())
        return learner

    @property
    def weights(self) -> Values:
        """Parameters, flat; may be written to."""
        weights: Values = self.learner.flat.parameters.numpy()
        return weights

    def take_inbox(self) -> Updates:
        """Empty the inbox, and return what it held."""
        taken = tuple(self.inbox)
        self.inbox.clear()
        return taken

    async def compute(
        self,
        begin: Callable[[], Callable[[PeerLearner], Any]],
        samples: int,
        label: str,
        times: float = 1.0,
    ) -> Any:
        """Run a computation on a batch of `samples`, in the seconds of `times` iterations.

        `begin` returns the computation; it is called when the seconds begin to count.
        """
        job = self.job
        if job.host_s:
            await self.context.sleep(job.host_s * times)
        return await self.context.compute(
            begin(),
            cost_s=samples * job.sample_s[self.node] * times,
            lane="learn",
            label=label,
            on=self._state,
        )

    async def evaluate(self) -> Evaluation:
        """Evaluate the model, which takes no virtual time and leaves no trace."""
        evaluate = partial(PeerLearner.evaluate, updates=self.take_inbox())
        return await self.context.compute(evaluate, cost_s=0.0, lane="", on=self._state)

    # --- Peers ----------------------------------------------------------------------------------

    @property
    def alive(self) -> tuple[int, ...]:
        """Peers that are not gone, ascending."""
        return tuple(self.progress.newest)

    def is_alive(self, peer: int) -> bool:
        """Whether a peer that is heard directly has not been silent for the patience."""
        return self.heartbeat.left_s(peer) > 0

    def update_alive(self) -> None:
        """Find out which peers are gone, and which are back."""
        if self.patience_s < math.inf:
            newest, now = self.progress.newest, self.progress.iteration
            self.progress.newest = {
                peer: max(newest.get(peer, now), self.heartbeat.newest(peer, "iteration"))
                for peer in self.context.peers
                if peer not in self.heartbeat.sources or self.is_alive(peer)
            }

    def has_sent(self, peer: int, topic: str, iteration: int) -> bool:
        """Whether all that a peer sends of a topic in an iteration has arrived, or is lost."""
        newest = self.heartbeat.newest
        if newest(peer, "done") > 0:
            return True
        return max(newest(peer, topic), newest(peer, "iteration")) >= iteration

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until a condition is met, for as long as an alive peer may meet it.

        Where messages may be lost, a peer is alive until it was silent for the patience; and once
        all have only waited for `heartbeat.QUIET` times as long, nobody meets it any more.
        """
        heartbeat = self.heartbeat
        heartbeat.note_waiting(waiting=True)
        self.update_alive()
        while not met():
            left_s = min(heartbeat.next_gone_s(), heartbeat.quiet_s())
            if self.patience_s < math.inf and not left_s:
                break
            self._waiting = True
            await self.receive("wake", left_s or math.inf)
            self._waiting = False
            self.update_alive()
        heartbeat.note_waiting(waiting=False)

    def tell_done(self) -> None:
        """Tell the others that this worker has finished."""
        self.heartbeat.sent["done"] = 1  # in case that all messages are lost
        self.tell("done", to=self.context.peers)

    async def until_all_are_done(self) -> None:
        """Tell the others that this worker has finished, and wait for all that are alive."""
        self.tell_done()
        heartbeat = self.heartbeat
        await self.until(
            lambda: all(
                heartbeat.newest(peer, "done") > 0
                for peer in heartbeat.sources
                if self.is_alive(peer)
            )
        )

    # --- Messages -------------------------------------------------------------------------------

    def on(self, topic: str, act: Callable[[Message], None]) -> None:
        """Handle every message of a topic as it arrives."""
        self.context.spawn(self._serve(topic, act))

    async def _serve(self, topic: str, act: Callable[[Message], None]) -> None:
        while True:
            message = await self.context.receive(topic)
            self.heartbeat.hear(message.sender)
            act(message)
            if self._waiting:
                self._waiting = False
                self.context.send(self.node, Message(self.node, "wake", control=True))

    async def receive(
        self, topic: str, within_s: float, sender: int | None = None
    ) -> Message | None:
        """Wait for a message; None if none comes in time."""
        timeout_s = None if within_s == math.inf else within_s
        with contextlib.suppress(TimeoutError):
            return await self.context.receive(topic, sender=sender, timeout_s=timeout_s)
        return None

    def note_arrival(self, message: Message, iteration: int, values: int) -> None:
        """Note and record what a peer has sent in one of its iterations."""
        newest, sender = self.progress.newest, message.sender
        if sender in newest:
            newest[sender] = max(iteration, newest[sender])
        size_bytes = message.size_bytes
        self.context.record(Arrival(sender, message.topic, iteration, values, size_bytes))

    def tell(
        self, topic: str, payload: Any = None, to: int | Collection[int] | None = None
    ) -> None:
        """Send a few numbers to a peer, to several, or to all that are alive."""
        message = Message(self.node, topic, payload, control=True)
        for peer in self.alive if to is None else [to] if isinstance(to, int) else to:
            self.context.send(peer, message)

    def send(
        self, to: int, topic: str, payload: Any, size_bytes: float, tensors: Sequence[float] = ()
    ) -> None:
        """Send a peer a message of a size; `tensors` are the sizes of its parts, sent in turn."""
        self.context.send(to, Message(self.node, topic, payload, size_bytes, tuple(tensors)))

    def send_model(self, to: int, topic: str, payload: Any, times: float = 1.0) -> None:
        """Send a peer a message `times` as large as a model."""
        sizes = [size_bytes * times for size_bytes in self.job.tensor_bytes]
        size_bytes = sum(sizes) if sizes else self.learner.flat.parameters.nbytes * times
        self.send(to, topic, payload, size_bytes, sizes)

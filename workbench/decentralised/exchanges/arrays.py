"""Exchanges of arrays by topic and turn, and averages that several workers compute together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from workbench.decentralised.exchange import Exchange
from workbench.training import average_buffers

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.decentralised.learner import Values
    from workbench.decentralised.worker import Worker
    from workbench.runtime import Message

    Arrays = tuple[Values, ...]
    Buffers = Mapping[str, Tensor]

TOPIC = "model"
"""Topic of messages that carry arrays."""


class ArrayExchange(Exchange):
    """An exchange of arrays, each with a topic and a turn, the iteration in which it was sent.

    Deviation: papers on these exchanges are silent on what batch normalisation averages. Its
    buffers travel with all arrays and weigh nothing on the links; a node takes the mean of its own
    and those that arrive together. Counters stay.
    """

    takes_step = True

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        # What has arrived, by topic and turn, then by sender.
        self._arrived: defaultdict[tuple[str, int], dict[int, tuple[Arrays, Buffers]]]
        self._arrived = defaultdict(dict)
        self._over: dict[str, int] = {}  # newest turn of each topic that nobody waits for any more
        self._acts: dict[str, Callable[[int, int, Arrays], None]] = {}

    async def begin(self) -> None:
        """Take in the arrays that come."""
        self.worker.on(TOPIC, self._take)

    def on_arrays(self, topic: str, act: Callable[[int, int, Arrays], None]) -> None:
        """Call a function of sender, turn and arrays whenever some of a topic arrive."""
        self._acts[topic] = act

    def _take(self, message: Message) -> None:
        topic, turn, arrays, buffers = message.payload
        self.worker.note_arrival(message, turn, sum(array.size for array in arrays))
        act = self._acts.get(topic)
        if act is not None:
            act(message.sender, turn, arrays)
            self._average_buffers({message.sender: buffers})
        elif turn > self._over.get(topic, 0):
            self._arrived[topic, turn][message.sender] = arrays, buffers

    def send(self, to: int, topic: str, turn: int, *arrays: Values) -> None:
        """Send arrays, which nobody may change any more; the link carries their bytes.

        Those of a topic and turn are sent to all peers at once.
        """
        worker = self.worker
        worker.heartbeat.sent[topic] = turn
        size_bytes = sum(array.nbytes for array in arrays) * worker.job.iteration_factor
        buffers = worker.learner.buffers() if arrays else {}
        worker.send(to, TOPIC, (topic, turn, arrays, buffers), size_bytes)

    async def receive(
        self, topic: str, turn: int, senders: Collection[int], asked_s: float | None = None
    ) -> Mapping[int, Arrays]:
        """Wait for the arrays of this topic and turn, of all senders that are alive.

        Turns ascend: what comes when its turn is over is dropped. Where the arrays are answers,
        which a sender gives at once, even while it computes, `asked_s` is when it was asked.
        """
        worker, arrived = self.worker, self._arrived[topic, turn]

        def may_come(peer: int) -> bool:
            if asked_s is None:
                return not worker.has_sent(peer, topic, turn)
            return not worker.heartbeat.has_answered(peer, asked_s)

        await worker.until(
            lambda: not any(map(may_come, {*senders} & {*worker.alive} - arrived.keys()))
        )
        del self._arrived[topic, turn]
        self._average_buffers({sender: buffers for sender, (_, buffers) in arrived.items()})
        self._over[topic] = turn
        return {sender: arrived[sender][0] for sender in sorted(arrived)}

    def _average_buffers(self, arrived: Mapping[int, Buffers]) -> None:
        """Take the mean of the own buffers and those that came, in the order of nodes."""
        if came := {sender: buffers for sender, buffers in arrived.items() if buffers}:
            learner = self.worker.learner
            of_all = {self.worker.node: learner.buffers(), **came}
            learner.take_buffers(average_buffers([of_all[node] for node in sorted(of_all)]))

    # --- Averages -------------------------------------------------------------------------------

    async def all_gather(self, others: Collection[int], turn: int, *own: Values) -> list[Arrays]:
        """Send arrays to others; return theirs and the own, in the order of nodes.

        In that order all of a group add up alike, to the same bits. Others that are gone are left
        out.
        """
        sent = tuple(copied(array) for array in own)
        for to in others:
            self.send(to, "weights", turn, *sent)
        gathered = {self.worker.node: sent, **await self.receive("weights", turn, others)}
        return [gathered[node] for node in sorted(gathered)]

    async def all_reduce(self, turn: int, own: Values) -> Values:
        """Average a vector over all workers; each averages a share, and sends the mean to all.

        So a worker sends 2(n-1)/n vectors (butterfly all-reduce). While somebody is gone, everybody
        sends the whole vector. Where the mean of a share is lost, the worker keeps its own values.
        """
        node, nodes, others = self.worker.node, self.worker.nodes, self.worker.alive
        if len(others) < nodes - 1:
            vectors = [vector for (vector,) in await self.all_gather(others, turn, own)]
            whole: Values = np.mean([full for full in vectors if len(full) == len(own)], axis=0)
            return whole
        edges = [len(own) * owner // nodes for owner in range(nodes + 1)]
        shares = [slice(*ends) for ends in pairwise(edges)]
        for to in others:
            self.send(to, "weights", turn, copied(own[shares[to]]))
        mine, result = shares[node], own.copy()
        parts = {node: own[mine]}
        for sender, (part,) in (await self.receive("weights", turn, others)).items():
            parts[sender] = part[mine] if len(part) == len(own) else part
        result[mine] = np.mean([parts[sender] for sender in sorted(parts)], axis=0)
        for to in others:
            self.send(to, "mean", turn, copied(result[mine]))
        for sender, (mean,) in (await self.receive("mean", turn, others)).items():
            result[shares[sender]] = mean
        return result


def copied(array: Values) -> Values:
    """Return a copy to send: read-only, since sender and receiver share it."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy

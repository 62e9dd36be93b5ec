"""A node's own model and its peers, as an exchange of models by iterations sees them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from workbench.decentralised.gradient_exchange.part import Values
from workbench.training import average_buffers

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.decentralised.node import Node
    from workbench.runtime import Message

TOPIC = "model"
PAIRS = 12  # purpose of a stream, beside those of `workbench.training.repeatable`
Arrays = tuple[Values, ...]
Buffers = Mapping[str, "Tensor"]


class ModelExchange(Protocol):
    """A node's part in an exchange of models."""

    async def learnt(self, iteration: int) -> None:
        """Take the step of an iteration, from 1, whose gradient is there; exchange what is due."""


class Peer:
    """One node among its peers.

    Deviation: papers on these exchanges are silent on what batch normalisation averages. It
    travels with all arrays, weighs nothing on the links, and of what comes together with its own a
    node takes the mean; counters stay.

    Attributes
    ----------
    node, nodes
        Its index, and how many nodes there are in all.
    seed
        Of the run, the same for all nodes, for draws that all agree on.
    random
        The node's own generator.
    """

    def __init__(self, own: Node) -> None:
        self._own, self.node, self.nodes = own, own.node, own.job.setup.nodes
        self.seed, self.random = own.job.setup.seed, own.context.random
        self._arrived: defaultdict[tuple[str, int], dict[int, tuple[Arrays, Buffers]]]
        self._arrived = defaultdict(dict)
        self._over: dict[str, int] = {}  # newest turn of each topic that nobody waits for any more
        self._asked_s: dict[tuple[int, int], float] = {}  # by peer and turn
        self._acts: dict[str, Callable[[int, int, Arrays], None]] = {}
        own.on(TOPIC, self._take)

    @property
    def there(self) -> tuple[int, ...]:
        """Peers that are there, ascending."""
        return self._own.there

    @property
    def weights(self) -> Values:
        """Its model, flat; may be written to."""
        weights: Values = self._own.learner.flat.parameters.numpy()
        return weights

    def step(self) -> None:
        """Take a step along the gradient that was computed last."""
        self._own.learner.step()

    def send(self, to: int, topic: str, turn: int, *arrays: Values) -> None:
        """Send arrays, which nobody may change any more; the link carries their bytes.

        A turn is an iteration; what is of one topic and turn is sent to all peers at once.
        """
        self._own.heartbeat.sent[topic] = turn
        size_bytes = sum(array.nbytes for array in arrays) * self._own.job.stands_for
        buffers = self._own.learner.buffers() if arrays else {}
        self._own.send(to, TOPIC, (topic, turn, arrays, buffers), size_bytes)

    def ask(self, to: int, topic: str, turn: int, *arrays: Values) -> None:
        """Send arrays that the peer answers as soon as they arrive, whatever it does then."""
        self._asked_s[to, turn] = self._own.context.now_s()
        self.send(to, topic, turn, *arrays)

    async def receive(
        self, topic: str, turn: int, senders: Collection[int]
    ) -> Mapping[int, Arrays]:
        """Wait for the arrays of this topic and turn, of all senders that are there.

        Turns ascend: what comes when its turn is over is dropped.
        """
        arrived, own = self._arrived[topic, turn], self._own

        def may_come(peer: int) -> bool:
            asked_s = self._asked_s.get((peer, turn))
            if asked_s is None:
                return not own.has_sent(peer, topic, turn)
            return not own.heartbeat.has_answered(peer, asked_s)

        await own.until(lambda: not any(map(may_come, {*senders} & {*self.there} - arrived.keys())))
        del self._arrived[topic, turn]
        self._average({sender: buffers for sender, (_, buffers) in arrived.items()})
        self._over[topic] = turn
        self._asked_s.clear()
        return {sender: arrived[sender][0] for sender in sorted(arrived)}

    def on(self, topic: str, act: Callable[[int, int, Arrays], None]) -> None:
        """Have a function of sender, turn and arrays called as soon as some of a topic arrive."""
        self._acts[topic] = act

    def _take(self, message: Message) -> None:
        topic, turn, arrays, buffers = message.payload
        self._own.heard(message, turn, sum(array.size for array in arrays))
        act = self._acts.get(topic)
        if act is not None:
            act(message.sender, turn, arrays)
            self._average({message.sender: buffers})
        elif turn > self._over.get(topic, 0):
            self._arrived[topic, turn][message.sender] = arrays, buffers

    def _average(self, arrived: Mapping[int, Buffers]) -> None:
        """Take the mean of the own buffers and those that came, in the order of nodes."""
        if came := {sender: buffers for sender, buffers in arrived.items() if buffers}:
            learner = self._own.learner
            of_all = {self.node: learner.buffers(), **came}
            learner.take_buffers(average_buffers([of_all[node] for node in sorted(of_all)]))


async def all_gather(peer: Peer, others: Collection[int], turn: int, *own: Values) -> list[Arrays]:
    """Send arrays to others; return theirs and the own, in the order of nodes.

    In that order all of a group add up alike, to the same bits. Others that are gone are left out.
    """
    sent = tuple(copied(array) for array in own)
    for to in others:
        peer.send(to, "weights", turn, *sent)
    gathered = {peer.node: sent, **await peer.receive("weights", turn, others)}
    return [gathered[node] for node in sorted(gathered)]


async def all_reduce(peer: Peer, turn: int, own: Values) -> Values:
    """Average a vector over all workers, each of which averages a share and sends all its mean.

    So a worker sends 2(n-1)/n vectors, as in `workbench.decentralised.butterfly`. While somebody is
    gone, everybody sends the whole vector; a share whose mean is lost stays the own one.
    """
    others = peer.there
    if len(others) < peer.nodes - 1:
        vectors = [vector for (vector,) in await all_gather(peer, others, turn, own)]
        whole: Values = np.mean([one for one in vectors if len(one) == len(own)], axis=0)
        return whole
    edges = [len(own) * node // peer.nodes for node in range(peer.nodes + 1)]
    shares = [slice(*ends) for ends in pairwise(edges)]
    for to in others:
        peer.send(to, "weights", turn, copied(own[shares[to]]))
    mine, result = shares[peer.node], own.copy()
    parts = {peer.node: own[mine]}
    for node, (part,) in (await peer.receive("weights", turn, others)).items():
        parts[node] = part[mine] if len(part) == len(own) else part
    result[mine] = np.mean([parts[node] for node in sorted(parts)], axis=0)
    for to in others:
        peer.send(to, "mean", turn, copied(result[mine]))
    for node, (mean,) in (await peer.receive("mean", turn, others)).items():
        result[shares[node]] = mean
    return result


def copied(array: Values) -> Values:
    """Return a copy to send: read-only, since the receiver has the same one."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def partner(seed: int, turn: int, node: int, nodes: int) -> int | None:
    """Who is paired with a node in a turn; None for the one that an odd number leaves over."""
    stream = np.random.SeedSequence(seed, spawn_key=(PAIRS, turn))
    order = np.random.default_rng(stream).permutation(nodes).tolist()
    beside: int = order.index(node) ^ 1
    return order[beside] if beside < nodes else None

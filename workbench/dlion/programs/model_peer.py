"""A worker as an exchange of models sees it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Values
    from workbench.decentralised.model_exchange.peer import Arrays, ModelExchange
    from workbench.dlion.programs.worker import Worker
    from workbench.runtime import Message

TOPIC = "model"


def join(worker: Worker, exchange: Callable[..., ModelExchange]) -> ModelExchange:
    """Have a worker take part in an exchange of models.

    Raises TypeError: `exchange` made something else than a worker's part.
    """
    part = exchange(ModelPeer(worker))
    if not iscoroutinefunction(getattr(part, "learnt", None)):
        raise TypeError(
            f"exchange_models of {worker.job.system.title} returned {type(part).__name__}; give an "
            "object with `async def learnt(self, iteration)`, which takes the worker's step"
        )
    return part


class ModelPeer:
    """A worker among its peers; see `workbench.decentralised.model_exchange.peer.Peer`."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.node, self.nodes = worker.node, len(worker.job.learners)
        self.seed, self.random = worker.job.setup.seed, worker.context.random
        self._arrived: defaultdict[tuple[str, int], dict[int, Arrays]] = defaultdict(dict)
        self._over: dict[str, int] = {}  # newest turn of each topic that nobody waits for any more
        self._acts: dict[str, Callable[[int, int, Arrays], None]] = {}
        worker.on(TOPIC, self._take)

    @property
    def there(self) -> tuple[int, ...]:
        """Peers that are there, ascending."""
        return self._worker.there

    @property
    def weights(self) -> Values:
        """Its model, flat; may be written to."""
        weights: Values = self._worker.learner.flat.parameters.numpy()
        return weights

    def step(self) -> None:
        """Take a step along the gradient that was computed last."""
        self._worker.learner.step()

    def send(self, to: int, topic: str, turn: int, *arrays: Values) -> None:
        """Send arrays, which nobody may change any more; the link carries their bytes."""
        size_bytes = sum(array.nbytes for array in arrays)
        stands_for = self._worker.job.stands_for
        self._worker.send(to, TOPIC, (topic, turn, arrays), size_bytes, times=stands_for)

    async def receive(
        self, topic: str, turn: int, senders: Collection[int]
    ) -> Mapping[int, Arrays]:
        """Wait for the arrays of this topic and turn, of all senders that are there."""
        arrived = self._arrived[topic, turn]
        await self._worker.until(lambda: arrived.keys() >= {*senders} & {*self.there})
        del self._arrived[topic, turn]
        self._over[topic] = turn
        return {sender: arrived[sender] for sender in sorted(arrived)}

    def on(self, topic: str, act: Callable[[int, int, Arrays], None]) -> None:
        """Have a function called as soon as some of a topic arrive."""
        self._acts[topic] = act

    def _take(self, message: Message) -> None:
        topic, turn, arrays = message.payload
        self._worker.heard(message, turn, sum(array.size for array in arrays))
        act = self._acts.get(topic)
        if act is not None:
            act(message.sender, turn, arrays)
        elif turn > self._over.get(topic, 0):
            self._arrived[topic, turn][message.sender] = arrays

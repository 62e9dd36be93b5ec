"""A node's own model and its peers, as that sees them which exchanges models by iterations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from workbench.decentralised.gradient_exchange.part import Values

if TYPE_CHECKING:
    import numpy as np

Arrays = tuple[Values, ...]


class Peer(Protocol):
    """One node among its peers.

    Attributes
    ----------
    node, nodes
        Its index, and how many nodes there are in all.
    seed
        Of the run, the same for all nodes, for draws that all agree on.
    random
        The node's own generator.
    """

    node: int
    nodes: int
    seed: int
    random: np.random.Generator

    @property
    def there(self) -> tuple[int, ...]:
        """Peers that are there, ascending."""
        ...

    @property
    def weights(self) -> Values:
        """Its model, flat; may be written to."""
        ...

    def step(self) -> None:
        """Take a step along the gradient that was computed last."""
        ...

    def send(self, to: int, topic: str, turn: int, *arrays: Values) -> None:
        """Send arrays, which nobody may change any more; the link carries their bytes."""
        ...

    async def receive(
        self, topic: str, turn: int, senders: Collection[int]
    ) -> Mapping[int, Arrays]:
        """Wait for the arrays of this topic and turn, of all senders that are there.

        Turns ascend: what comes when its turn is over is dropped.
        """
        ...

    def on(self, topic: str, act: Callable[[int, int, Arrays], None]) -> None:
        """Have a function of sender, turn and arrays called as soon as some of a topic arrive."""
        ...


class ModelExchange(Protocol):
    """A node's part in an exchange of models."""

    async def learnt(self, iteration: int) -> None:
        """Take the step of an iteration, from 1, whose gradient is there; exchange what is due."""
        ...

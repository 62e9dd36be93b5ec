"""All that a worker program knows of the world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from workbench.runtime.messages import Message, Transfer

T = TypeVar("T")


class Context(Protocol):
    """One node as its program sees it, simulated or real.

    A program is an ``async def`` that takes its `Context` and awaits nothing but what the
    methods below return; whatever it returns becomes its node's result.
    """

    @property
    def node(self) -> int:
        """Index of this node in the cluster."""
        ...

    @property
    def name(self) -> str:
        """Name of this node."""
        ...

    @property
    def peers(self) -> tuple[int, ...]:
        """Nodes that links from here lead to, ascending."""
        ...

    @property
    def restarts(self) -> int:
        """How often the node has been restarted after a crash; 0 in its first life."""
        ...

    @property
    def random(self) -> np.random.Generator:
        """Generator of this node's own, from the run's seed, the node and its restarts."""
        ...

    def now_s(self) -> float:
        """Seconds since the run began."""
        ...

    def compute(
        self, work: Callable[[], T], *, cost_s: float, lane: str = "compute", label: str = ""
    ) -> Awaitable[T]:
        """Occupy a core and return what `work` returns.

        `work` runs once, when the core is free: it sees its inputs as they are then, and its
        result is there `cost_s` seconds later at speed 1, more on a slower node. `lane` and
        `label` say where and as what it shows in the trace.

        Raises
        ------
        ValueError
            A cost that is negative or not finite.
        """
        ...

    def send(self, to: int, message: Message) -> None:
        """Queue a message on the link to another node and return at once.

        A message to oneself is there at once and costs nothing.

        Raises
        ------
        UnknownNodeError, MissingLinkError
            No such node, or no link from here to it.
        ValueError
            The message names another sender.
        """
        ...

    def receive(
        self,
        topic: str | None = None,
        *,
        sender: int | None = None,
        timeout_s: float | None = None,
    ) -> Awaitable[Message]:
        """Wait for the first unread message, of a topic or from a sender where these are given.

        Raises
        ------
        TimeoutError
            None came within `timeout_s`.
        """
        ...

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait, occupying nothing."""
        ...

    def spawn(self, work: Awaitable[T]) -> Awaitable[T]:
        """Run a coroutine beside the program; awaiting what this returns waits for its result.

        It ends, at the latest, when the node's program returns. Its exception reaches whoever
        awaits it by then, and otherwise ends the run.
        """
        ...

    def watch(self) -> list[Transfer]:
        """Return a list to which every transfer from or to this node is added as it ends."""
        ...


Program = Callable[..., Awaitable[Any]]
"""A coroutine function that takes a `Context`."""

"""All that a worker program knows of the world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

if TYPE_CHECKING:
    import numpy as np

    from workbench.runtime.messages import Message, Transfer
    from workbench.runtime.threads import Synchronized

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Task(Awaitable[T_co], Protocol[T_co]):
    """What `Context.spawn` runs; awaiting it waits for its result."""

    def done(self) -> bool:
        """Whether it has ended: with a result, by an exception, or cancelled."""
        ...

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        ...

    def result(self) -> T_co:
        """What it returned; raises what it raised, and RuntimeError before it has ended."""
        ...

    def cancel(self) -> bool:
        """End it where it waits; False if it had ended already.

        Its ``finally`` runs, but can await nothing; who awaits it meets `asyncio.CancelledError`.
        A message that it was just given stays unread. It cannot cancel itself (RuntimeError).
        """
        ...


class Context(Protocol):
    """One node as its program sees it, simulated or real.

    A program is an ``async def`` that takes its `Context` and awaits nothing but what the
    methods below return; whatever it returns becomes its node's result. Where a program is cut
    off (by a crash, or as a task by its program's end), ``finally`` still runs, but can await
    nothing; what it spawns then never begins, and what it sends as its node crashes is lost.
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

    @overload
    def compute(
        self, work: Callable[[], T], *, cost_s: float, lane: str = ..., label: str = ...
    ) -> Awaitable[T]: ...

    @overload
    def compute(
        self,
        work: Callable[[S], T],
        *,
        cost_s: float,
        lane: str = ...,
        label: str = ...,
        on: Synchronized[S],
    ) -> Awaitable[T]: ...

    def compute(
        self,
        work: Callable[..., T],
        *,
        cost_s: float,
        lane: str = "compute",
        label: str = "",
        on: Synchronized[Any] | None = None,
    ) -> Awaitable[T]:
        """Occupy a core and return what `work` returns.

        It runs once, when the core is free: it sees its inputs as they are then. Its result is
        there `cost_s` seconds later at speed 1, more on a slower node. An exception comes at
        once; with `on`, when the result would.

        Parameters
        ----------
        work
            A function without arguments; with `on`, of the state alone.
        cost_s
            Seconds at speed 1.
        lane, label
            Where and as what it shows in the trace; an empty lane leaves no trace.
        on
            The state of this node that `work` changes. Then it may run on another thread, beside
            that of other nodes, with the same results; whoever looks at the state waits for it.
            Work that draws from a global generator of random numbers needs a state made with
            ``in_order=True``.

        Raises
        ------
        ValueError
            A cost that is negative or not finite.
        TypeError
            Work that is no function, or a coroutine function; with `on`, work that could reach
            other things than its state; a lane or label that is no text.
        OverflowError
            It would end after more seconds than a number holds.
        """
        ...

    def send(self, to: int | str, message: Message) -> None:
        """Queue a message on the link to another node, by index or name, and return at once.

        There is nothing to await. A message to oneself is there at once and costs nothing. Nothing
        tells whether a message arrives: one that is lost, or sent to a node that is down, is met
        by silence.

        Raises
        ------
        UnknownNodeError, MissingLinkError
            No such node, or no link from here to it.
        ValueError
            The message names another sender.
        TypeError
            What is sent is no `Message`.
        """
        ...

    def receive(
        self,
        topic: str | None = None,
        *,
        sender: int | str | None = None,
        timeout_s: float | None = None,
    ) -> Awaitable[Message]:
        """Wait for the first unread message, of a topic or from a sender where these are given.

        A peer that has crashed, or whose messages are lost, shows by nothing but silence: who
        must not wait for ever gives `timeout_s`. What arrives in the very instant in which that
        runs out is received; with 0 that is whatever arrives in this instant.

        Raises
        ------
        TimeoutError
            None came within `timeout_s`.
        UnknownNodeError
            No such sender.
        ValueError
            A `timeout_s` that is negative or not finite.
        TypeError
            A topic that is no text.
        """
        ...

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait, occupying nothing.

        A loop in which no time passes, such as one that sleeps for 0 seconds for ever, ends the
        run with an error that names the node.

        Raises
        ------
        ValueError
            Seconds that are negative or not finite.
        """
        ...

    def spawn(self, work: Awaitable[T]) -> Task[T]:
        """Run a coroutine beside the program; awaiting what this returns waits for its result.

        It ends, at the latest, when the node's program returns or fails, and in the instant in
        which the node crashes: wherever it waits, without a result, and a restart does not bring
        it back. Its exception reaches whoever awaits it by then, and otherwise ends the run.

        Raises
        ------
        TypeError
            What is given cannot be awaited.
        """
        ...

    def first(self, *works: Awaitable[T]) -> Awaitable[tuple[int, T]]:
        """Wait for the first of several coroutines or tasks.

        Returns its place among them, and its result; raises what it raised. The others of the
        coroutines are cancelled in that moment, so that they take no message; tasks, which may be
        awaited elsewhere, go on. Of tasks that are done already it is the one named first.

        Raises
        ------
        ValueError
            None are given.
        TypeError
            One that cannot be awaited.
        """
        ...

    def watch(self) -> list[Transfer]:
        """Return a list to which every transfer from or to this node is added as it ends.

        A crash ends that; a restarted program asks for a list of its own.
        """
        ...


Program = Callable[..., Awaitable[Any]]
"""A coroutine function that takes a `Context`."""

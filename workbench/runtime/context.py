"""What a program sees of its node and of the others."""

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
    """A coroutine started by `Context.spawn`; awaiting it waits for its result."""

    def done(self) -> bool:
        """Whether it has ended: with a result, by an exception, or cancelled."""

    def cancelled(self) -> bool:
        """Whether it was cancelled."""

    def result(self) -> T_co:
        """What it returned; raises what it raised, and RuntimeError before it has ended."""

    def cancel(self) -> bool:
        """End it where it waits; False if it had ended already.

        Its ``finally`` runs but can await nothing; who awaits it gets `asyncio.CancelledError`.
        A message just delivered to it stays unread. It cannot cancel itself (RuntimeError).
        """


class Context(Protocol):
    """One node as its program sees it, simulated or real.

    A program is an ``async def`` that takes its `Context` and awaits nothing but what the
    methods below return; its return value is its node's result. A context is of use in its own run
    alone. Where a program is cut off (by a crash, or a task by its program's end), ``finally``
    still runs but can await nothing; what it spawns then never begins, and what it sends as its
    node crashes is lost.
    """

    @property
    def node(self) -> int:
        """Index of this node in the cluster."""

    @property
    def name(self) -> str:
        """Name of this node."""

    @property
    def peers(self) -> tuple[int, ...]:
        """Nodes that links from here lead to, ascending."""

    @property
    def restarts(self) -> int:
        """How often the node has been restarted after a crash."""

    @property
    def random(self) -> np.random.Generator:
        """Generator of this node's own, from the run's seed, the node and its restarts."""

    def now_s(self) -> float:
        """Seconds since the run began."""

    @overload
    def compute(
        self,
        work: Callable[[], T],
        *,
        cost_s: float | Callable[[T], float] | None,
        lane: str = ...,
        label: str = ...,
    ) -> Awaitable[T]: ...

    @overload
    def compute(
        self,
        work: Callable[[S], T],
        *,
        cost_s: float | Callable[[T], float] | None,
        lane: str = ...,
        label: str = ...,
        on: Synchronized[S],
    ) -> Awaitable[T]: ...

    def compute(
        self,
        work: Callable[..., T],
        *,
        cost_s: float | Callable[[T], float] | None,
        lane: str = "compute",
        label: str = "",
        on: Synchronized[Any] | None = None,
    ) -> Awaitable[T]:
        """Occupy a core and return what `work` returns.

        It runs once, when a core is free, on its inputs as they are then. The result is there
        `cost_s` seconds later at speed 1, later on a slower node. An exception is raised at once;
        with `on`, when the result would be there.

        Parameters
        ----------
        work
            A function without arguments; with `on`, of the state alone.
        cost_s
            Seconds at speed 1, finite and not negative; a function of the result, where only that
            says; or None for the time that the work takes, which a simulation refuses.
        lane, label
            Of its span in the trace; an empty lane records none.
        on
            The state of this node that `work` changes; whoever reads it waits for the work. On one
            made with ``parallel=True``, work may run on another thread, beside that of other
            nodes, with the same results.
        """

    def send(self, to: int | str, message: Message) -> None:
        """Queue a message on the link to another node, by index or name, and return at once.

        A message to the node itself arrives at once and costs nothing. The sender never learns
        whether a message arrives: one that is lost, or sent to a node that is down, vanishes.

        Raises UnknownNodeError or MissingLinkError: no such node, or no link from here to it.
        """

    def receive(
        self,
        topic: str | None = None,
        *,
        sender: int | str | None = None,
        timeout_s: float | None = None,
    ) -> Awaitable[Message]:
        """Wait for the first unread message, optionally of one topic or from one sender.

        A peer that has crashed, or whose messages are lost, only falls silent: a program that must
        not wait for ever sets `timeout_s`. A message that arrives in the instant of the timeout is
        received; with 0, whatever arrives in this instant.

        Raises TimeoutError: none came within `timeout_s`.
        """

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait without occupying a core; a loop in which no time passes never ends."""

    def spawn(self, work: Awaitable[T]) -> Task[T]:
        """Run a coroutine beside the program; awaiting what this returns waits for its result.

        It ends, at the latest, when the node's program returns or fails, or the node crashes:
        wherever it waits, without a result; a restart does not bring it back. Its exception reaches
        whoever awaits it by then, and otherwise ends the run.
        """

    def first(self, *works: Awaitable[T]) -> Awaitable[tuple[int, T]]:
        """Wait for the first of several coroutines or tasks; return its position and its result.

        Raises what it raised. The other coroutines are cancelled at that moment, so that they take
        no message; tasks, which may be awaited elsewhere, go on. Of tasks that are done already the
        first in order counts.
        """

    def watch(self) -> list[Transfer]:
        """Return a list to which every transfer from or to this node is added as it ends.

        A crash ends that; a restarted program asks for a new list.
        """

    def record(self, value: Any) -> None:
        """Pass an observation to the run's `observer`, with the time and the node; takes no time.

        What the value holds may change afterwards: whoever observes keeps no reference to it.
        """


Program = Callable[..., Awaitable[Any]]
"""A coroutine function, or an object with ``async def __call__``, that takes a `Context`.

It may have two methods more. `learnt()` returns what its node knows when the run has ended, however
it ended: see `Run.learnt`. `warm_up()` computes something before a measured run begins, since work
takes longer when it is done first, and leaves everything as it was.
"""

Observer = Callable[[float, int, Any], None]
"""Takes each observation of a run, in the order of its clock: ``(at_s, node, value)``."""

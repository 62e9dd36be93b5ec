"""A simulated node: its program and the tasks beside it, its mailbox, its cores."""

from __future__ import annotations

import inspect
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import simpy
from simpy.events import Process

from workbench.clusters import Node
from workbench.runtime.faults import Crash, Restart
from workbench.runtime.kernel import FIRST
from workbench.runtime.messages import Mailbox
from workbench.runtime.pipe import Endpoint, Pipe, State
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from workbench.runtime.context import Context, Program

T = TypeVar("T")

_MOST_AWAITS = 10  # as it ends; one that passes over every exception would go on for ever


class CutOffWarning(RuntimeWarning):
    """A program or task raised an exception as it was cut off; nobody could catch it."""


class CutOff(BaseException):
    """Raised in a coroutine where it waits when its node or program ends.

    Not GeneratorExit, which Python would not pass to the innermost of coroutines that wait for
    each other, should that await something as it ends.
    """


class SimulatedTask(Generic[T]):
    """See `workbench.runtime.Task`."""

    __slots__ = ("_cancelled", "_error", "_host", "_process", "ends", "waiting")

    def __init__(self, host: Host, work: Awaitable[T]) -> None:
        self._host = host
        self._cancelled = False
        self._error: BaseException | None = None
        self.waiting = 0  # who awaits it
        self.ends: list[Callable[[], None]] = []  # called in the moment in which it ends
        self._process = host.run(self._run(work), work)

    async def _run(self, work: Awaitable[T]) -> T | None:
        """Wait for the work, keeping its exception for the coroutine that awaits the task."""
        try:
            return await work
        except BaseException as error:  # SystemExit and asyncio's CancelledError, too
            if not self.waiting or isinstance(error, CutOff | KeyboardInterrupt):
                raise
            self._error = error
            return None
        finally:
            for end in self.ends:
                end()

    def done(self) -> bool:
        """Whether it has ended: with a result, by an exception, or cancelled."""
        return self._process.triggered

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled

    def cancel(self) -> bool:
        """End it where it waits; False if it had ended."""
        if self.done():
            return False
        self._host.cancel_task(self._process)
        self._cancelled = True
        return True

    def end(self) -> None:
        """Cancel it; if it runs at this moment, where it waits next in this instant."""
        env = self._host.state.env
        if self._process is env.active_process:
            env.call_at(env.now, lambda _: self.end(), FIRST)
        else:
            self.cancel()

    def result(self) -> T:
        """What it returned; raises what it raised, and RuntimeError before it has ended."""
        if not self.done():
            raise RuntimeError("the task has not ended; await it")
        if self._error is not None:
            raise self._error
        if self._cancelled:
            from asyncio import CancelledError

            raise CancelledError("the task was cancelled")
        if not self._process.ok:  # it had failed before anybody awaited it
            raise cast(BaseException, self._process.value)
        return cast(T, self._process.value)

    def __await__(self) -> Generator[simpy.Event, Any, T]:
        self.waiting += 1
        try:
            yield self._process
        finally:
            self.waiting -= 1
        return self.result()


class Cores:
    """How many cores of a node are `free`, and the queue of those who wait for one.

    A node has new ones after a restart, so that what is left of before frees none of these.
    """

    __slots__ = ("free", "turns")

    def __init__(self, count: int) -> None:
        self.free = count
        self.turns: deque[simpy.Event] = deque()

    def release(self) -> None:
        """Pass a core to the first in the queue, or keep it free."""
        if self.turns:
            self.turns.popleft().succeed()
        else:
            self.free += 1


class Host(Endpoint):
    """One node of a running simulation, from its first start to its last end."""

    def __init__(
        self,
        state: State,
        index: int,
        node: Node,
        program: Program | None,
        context: Callable[[Host], Context],
    ) -> None:
        super().__init__(state, index, node)
        self.program, self._context = program, context
        self.speed = node.speed_over_time
        self.node = node
        self.cores = Cores(node.cores)
        self.pipes: dict[int, Pipe] = {}
        self.running: dict[Process, tuple[Coroutine[Any, Any, Any], Any]] = {}
        self.main: Process | None = None
        self.ended_s: float | None = None
        self.failed: BaseException | None = None
        self.restarts = 0

    def start(self) -> None:
        """Start the program from its beginning."""
        if self.program is not None:
            self.main = self.run(self._main(self.program))
            self.state.pending += 1

    def learnt(self) -> dict[int, Any]:
        """What the program has learnt so far, by this node; nothing where it learns nothing."""
        learnt = getattr(self.program, "learnt", None)
        return {} if learnt is None else {self.index: learnt()}

    async def _main(self, program: Program) -> Any:
        awaitable = program(self._context(self))
        if not inspect.isawaitable(awaitable):
            raise TypeError(
                f"a program must be an `async def` that takes its context; {program!r} returned "
                f"{awaitable!r}"
            )
        return await awaitable

    def run(self, coroutine: Coroutine[Any, Any, Any], work: Any = None) -> Process:
        """Run a coroutine as one of this node's; `work` is what it awaits, once it has begun."""
        process = Process(self.state.env, coroutine)  # type: ignore[arg-type]
        process.callbacks.append(self._end)
        self.running[process] = coroutine, work
        return process

    def _end(self, event: simpy.Event) -> None:
        assert isinstance(event, Process)
        state = self.state
        if not event.ok:
            error: Any = event.value
            state.failure = (self.index, error)
        if self.running.pop(event, None) is None:
            return  # ended in the instant in which the program did, and was cancelled with it
        state.ended_s = state.env.now
        if event is not self.main:
            return
        self.main = None
        self.ended_s = state.env.now
        state.pending -= 1
        if event.ok:
            state.results[self.index] = event.value
        else:
            self.failed = error
        self.cancel()

    def cancel(self) -> None:
        """End all that still runs here, wherever it waits, and what it spawns as it ends."""
        while self.running:  # what ends may spawn; what has not begun ends without a word
            running, self.running = self.running, {}
            for process, (coroutine, work) in running.items():
                self._cut_off(process, coroutine, work)
        self.mailbox.end_waits()

    def cancel_task(self, process: Process) -> None:
        """End one task; a coroutine that awaits it goes on."""
        if process is self.state.env.active_process:
            raise RuntimeError("a task cannot cancel itself; let it return")
        running = self.running.pop(process, None)
        if running is None:  # all here are being cut off
            return
        coroutine, work = running
        self._cut_off(process, coroutine, work)
        process._ok, process._value = True, None
        self.state.env.schedule(process)

    def _cut_off(self, process: Process, coroutine: Coroutine[Any, Any, Any], work: Any) -> None:
        target = process.target
        if target is not None and target.callbacks is not None:
            # The event may have failed already, with nobody left to hear of it.
            target.callbacks = [call for call in target.callbacks if call != process._resume]
            if not isinstance(target, Process):
                target.defused = True
        ended = inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
        error = None if ended else _end_where_it_waits(coroutine)
        if error is not None:
            warnings.warn(
                f"{self.name} (node {self.index}), cut off at {self.state.env.now:g} s, "
                f"raised {type(error).__name__}: {error}",
                CutOffWarning,
                stacklevel=2,
            )
        if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == "CORO_CREATED":
            work.close()  # Python would warn that nobody awaited it

    def inject(self, faults: Sequence[Crash | Restart]) -> None:
        """Crash and come back at their times."""
        faults = sorted(faults, key=lambda fault: fault.at_s)
        for place, fault in enumerate(faults):
            crashes = isinstance(fault, Crash)
            if crashes != (place % 2 == 0):
                there = "up" if place % 2 == 0 else "down"
                raise UserError(f"{fault}: {self.name} is {there} already then")
            crash = partial(self._crash, place + 1 < len(faults))
            act = crash if crashes else self._restart
            self.state.fault_events[self.state.env.call_at(fault.at_s, act, FIRST)] = self.index

    def _crash(self, comes_back: bool, _: simpy.Event) -> None:
        """Stop at once, losing everything but the trace."""
        self.up = False
        was_running = self.main is not None
        self.cancel()
        self.main = None
        self.watchers.clear()
        for pipe in self.pipes.values():
            pipe.drop()
        self.state.pending += (was_running and comes_back) - was_running

    def _restart(self, _: simpy.Event) -> None:
        """Come back with an empty memory."""
        self.up = True
        self.restarts += 1
        self.mailbox = Mailbox(self.state.env)
        self.cores = Cores(self.node.cores)
        if self.ended_s is None and self.program is not None:
            self.state.pending -= 1
            self.start()


def _end_where_it_waits(coroutine: Coroutine[Any, Any, Any]) -> BaseException | None:
    """End a coroutine where it waits, and where it would wait as it ends; its ``finally`` runs.

    Returns what else than `CutOff` it raised; None for nothing.
    """
    for _ in range(_MOST_AWAITS):
        try:
            coroutine.throw(CutOff())
        except KeyboardInterrupt:
            raise
        except (CutOff, StopIteration):
            return None
        except BaseException as error:
            return error
    return None

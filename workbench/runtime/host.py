"""A simulated node: its program and tasks, its mailbox, its cores."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import simpy
from simpy.events import Process

from workbench.clusters import Node
from workbench.runtime.cores import Cores
from workbench.runtime.endpoint import Endpoint
from workbench.runtime.kernel import FIRST
from workbench.runtime.mailbox import Mailbox
from workbench.runtime.pipe import Pipe
from workbench.runtime.state import State
from workbench.runtime.tasks import SimulatedTask, cut_off

if TYPE_CHECKING:
    from workbench.runtime.context import Context, Program


class CutOffWarning(RuntimeWarning):
    """A program or task raised an exception as it was cut off; nobody could catch it."""


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
        found = self.running.pop(process, None)
        if found is None:  # all here are being cut off
            return
        coroutine, work = found
        self._cut_off(process, coroutine, work)
        process._ok, process._value = True, None
        self.state.env.schedule(process)

    def end_task(self, task: SimulatedTask[Any]) -> None:
        """Cancel a task; one that runs at this moment, where it waits next in this instant."""
        if task.process is self.state.env.active_process:

            def end(_: simpy.Event) -> None:
                task.cancel()

            self.state.env.call(end, FIRST)
        else:
            task.cancel()

    def _cut_off(self, process: Process, coroutine: Coroutine[Any, Any, Any], work: Any) -> None:
        target = process.target
        if target is not None and target.callbacks is not None:
            # The event may have failed already, with nobody left to hear of it.
            target.callbacks = [one for one in target.callbacks if one != process._resume]
            if not isinstance(target, Process):
                target.defused = True
        ended = inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
        error = None if ended else cut_off(coroutine)
        if error is not None:
            warnings.warn(
                f"{self.name} (node {self.index}), cut off at {self.state.env.now:g} s, "
                f"raised {type(error).__name__}: {error}",
                CutOffWarning,
                stacklevel=2,
            )
        if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == "CORO_CREATED":
            work.close()  # Python would warn that nobody awaited it

    def crash(self, *, comes_back: bool) -> None:
        """Stop at once, losing everything but the trace."""
        self.up = False
        was_running = self.main is not None
        self.cancel()
        self.main = None
        self.watchers.clear()
        for pipe in self.pipes.values():
            pipe.drop()
        self.state.pending += (was_running and comes_back) - was_running

    def restart(self) -> None:
        """Come back with an empty memory."""
        self.up = True
        self.restarts += 1
        self.mailbox = Mailbox(self.state.env)
        self.cores = Cores(self.node.cores)
        if self.ended_s is None and self.program is not None:
            self.state.pending -= 1
            self.start()

"""A simulated node: its program and tasks, its mailbox, its cores."""

from __future__ import annotations

import contextlib
import inspect
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import simpy
from simpy.events import Process

from workbench.clusters import Node
from workbench.runtime.mailbox import Mailbox
from workbench.runtime.messages import Transfer
from workbench.runtime.sharing import Interface
from workbench.runtime.simulated import SimulatedContext

if TYPE_CHECKING:
    from workbench.runtime.context import Program
    from workbench.runtime.pipe import Pipe
    from workbench.runtime.simulation import Simulation


class Host:
    """One node of a running simulation, through its lives."""

    def __init__(
        self, simulation: Simulation, index: int, node: Node, program: Program | None
    ) -> None:
        self.simulation, self.index, self.name, self.program = simulation, index, node.name, program
        self.cores = self.free_cores = node.cores
        self.core_queue: deque[simpy.Event] = deque()
        self.speed = node.speed_over_time
        self.uplink = None if node.uplink is None else Interface(node.uplink)
        self.downlink = None if node.downlink is None else Interface(node.downlink)
        self.mailbox = Mailbox()
        self.pipes: dict[int, Pipe] = {}
        self.watchers: list[list[Transfer]] = []
        self.running: dict[Process, Coroutine[Any, Any, Any]] = {}
        self.main: Process | None = None
        self.ended_s: float | None = None
        self.failed: BaseException | None = None
        self.restarts = 0
        self.up = True

    def start(self) -> None:
        """Start the program from its beginning."""
        if self.program is not None:
            self.main = self.run(self._main(self.program))
            self.simulation.pending += 1

    async def _main(self, program: Program) -> Any:
        awaitable = program(SimulatedContext(self))
        if not inspect.isawaitable(awaitable):
            raise TypeError(
                f"a program must be an `async def` that takes its context; {program!r} returned "
                f"{awaitable!r}"
            )
        return await awaitable

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Process:
        """Run a coroutine as one of this node's."""
        process = Process(self.simulation.env, coroutine)  # type: ignore[arg-type]
        process.callbacks.append(self._end)
        self.running[process] = coroutine
        return process

    def _end(self, event: simpy.Event) -> None:
        assert isinstance(event, Process)
        simulation = self.simulation
        if not event.ok:
            error: Any = event.value
            simulation.failure = (self, error)
        if self.running.pop(event, None) is None:
            return  # ended in the instant in which the program did, and was cancelled with it
        simulation.ended_s = simulation.env.now
        if event is not self.main:
            return
        self.main = None
        self.ended_s = simulation.env.now
        simulation.pending -= 1
        if event.ok:
            simulation.results[self.index] = event.value
        else:
            self.failed = error
        self.cancel()

    def cancel(self) -> None:
        """End all that still runs here, wherever it waits."""
        running, self.running = self.running, {}
        for process, coroutine in running.items():
            target = process.target
            if target is not None and target.callbacks is not None:
                target.callbacks.clear()
            # What a program still wants to say when it is cut off, nobody hears.
            with contextlib.suppress(Exception):
                coroutine.close()

    def crash(self, *, comes_back: bool) -> None:
        """Stop at once, losing everything but the trace."""
        self.up = False
        was_running = self.main is not None
        self.cancel()
        self.main = None
        self.watchers.clear()
        self.mailbox.clear()
        self.core_queue.clear()
        self.free_cores = self.cores
        for pipe in self.pipes.values():
            pipe.drop()
        self.simulation.pending += (was_running and comes_back) - was_running

    def restart(self) -> None:
        """Come back with an empty memory."""
        self.up = True
        self.restarts += 1
        if self.ended_s is None and self.program is not None:
            self.simulation.pending -= 1
            self.start()

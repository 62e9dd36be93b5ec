"""Coroutines that run beside their node's program."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, cast

import simpy
from simpy.events import Process

from workbench.runtime.kernel import Kernel

T = TypeVar("T")


_MOST_AWAITS = 10  # as it ends; one that passes over every exception would go on for ever


class CutOff(BaseException):
    """Raised in a coroutine where it waits when its node or program ends.

    Not GeneratorExit, which Python would not pass to the innermost of coroutines that wait for
    each other, should that await something as it ends.
    """


def cut_off(coroutine: Coroutine[Any, Any, Any]) -> BaseException | None:
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


class SimulatedTask(Generic[T]):
    """See `workbench.runtime.Task`."""

    __slots__ = ("_cancel", "_cancelled", "ends", "error", "process", "waiting")

    def __init__(self, cancel: Callable[[Process], None]) -> None:
        self._cancel = cancel
        self._cancelled = False
        self.waiting = 0  # who awaits it
        self.ends: list[Callable[[], None]] = []  # called in the moment in which it ends
        self.error: BaseException | None = None
        self.process: Process

    async def run(self, work: Awaitable[T]) -> T | None:
        """Wait for the work, keeping its exception for the coroutine that awaits the task."""
        try:
            return await work
        except BaseException as error:  # SystemExit and asyncio's CancelledError, too
            if not self.waiting or isinstance(error, CutOff | KeyboardInterrupt):
                raise
            self.error = error
            return None
        finally:
            for end in self.ends:
                end()

    def done(self) -> bool:
        """Whether it has ended: with a result, by an exception, or cancelled."""
        return self.process.triggered

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled

    def cancel(self) -> bool:
        """End it where it waits; False if it had ended."""
        if self.done():
            return False
        self._cancel(self.process)
        self._cancelled = True
        return True

    def result(self) -> T:
        """What it returned; raises what it raised, and RuntimeError before it has ended."""
        if not self.done():
            raise RuntimeError("the task has not ended; await it")
        if self.error is not None:
            raise self.error
        if self._cancelled:
            from asyncio import CancelledError

            raise CancelledError("the task was cancelled")
        if not self.process.ok:  # it had failed before anybody awaited it
            raise cast(BaseException, self.process.value)
        return cast(T, self.process.value)

    def __await__(self) -> Generator[simpy.Event, Any, T]:
        refusal = None if self.done() else cast(Kernel, self.process.env).refusal("this task")
        if refusal is not None:
            yield refusal
        self.waiting += 1
        try:
            yield self.process
        finally:
            self.waiting -= 1
        return self.result()

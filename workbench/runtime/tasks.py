"""Coroutines that run beside their node's program."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, TypeVar

import simpy
from simpy.events import Process

T = TypeVar("T")


_MOST_AWAITS = 10  # as it ends; one that passes over every exception would go on for ever


class CutOff(BaseException):
    """What a coroutine meets where it waits when its node or program ends.

    Not GeneratorExit, which Python would not let through to the innermost of coroutines that
    wait for each other, should that await something as it ends.
    """


def cut_off(coroutine: Coroutine[Any, Any, Any]) -> None:
    """End a coroutine where it waits, and where it would wait as it ends.

    Its ``finally`` runs. What it still wants to say, nobody hears.
    """
    for _ in range(_MOST_AWAITS):
        try:
            coroutine.throw(CutOff())
        except KeyboardInterrupt:
            raise
        except BaseException:
            return


class Task(Generic[T]):
    """A coroutine that runs beside its node's program; awaiting it waits for its result."""

    __slots__ = ("awaited", "error", "process")

    def __init__(self) -> None:
        self.awaited = False
        self.error: BaseException | None = None
        self.process: Process

    async def run(self, work: Awaitable[T]) -> T | None:
        """Wait for the work, keeping its exception for whoever awaits the task."""
        try:
            return await work
        except BaseException as error:  # SystemExit and asyncio's CancelledError, too
            if not self.awaited or isinstance(error, CutOff | KeyboardInterrupt):
                raise
            self.error = error
            return None

    def __await__(self) -> Generator[simpy.Event, Any, T]:
        self.awaited = True
        value: T = yield self.process
        if self.error is not None:
            raise self.error
        return value

"""Coroutines that run beside their node's program."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

import simpy
from simpy.events import Process

T = TypeVar("T")


class Task(Generic[T]):
    """A coroutine that runs beside its node's program; awaiting it waits for its result."""

    __slots__ = ("awaited", "error", "process")

    def __init__(self) -> None:
        self.awaited = False
        self.error: Exception | None = None
        self.process: Process

    async def run(self, work: Awaitable[T]) -> T | None:
        """Wait for the work, keeping its exception for whoever awaits the task."""
        try:
            return await work
        except Exception as error:
            if not self.awaited:
                raise
            self.error = error
            return None

    def __await__(self) -> Generator[simpy.Event, Any, T]:
        self.awaited = True
        value: T = yield self.process
        if self.error is not None:
            raise self.error
        return value

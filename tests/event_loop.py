"""Runs a coroutine as a notebook does: in an event loop that is running already."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def in_event_loop(cell: Coroutine[Any, Any, T]) -> T:
    """Run it in a thread of its own: where a loop runs already, asyncio starts no other."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, cell).result()

"""How far a long run is, on a terminal or in a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

Progress = Callable[[float, int], None]
"""Told virtual seconds and events so far, a few times a second."""


@contextmanager
def shown(until_s: float | None = None, console: Console | None = None) -> Iterator[Progress]:
    """Show virtual seconds, events and their rate while a run goes on, in one line.

    ``with progress.shown() as told: simulate(..., progress=told)``; `simulate` does so itself
    where it is given ``progress=True``.
    """
    started_s = time.perf_counter()
    target = "" if until_s is None else f" of {until_s:g}"

    with (console or Console()).status("starting") as status:

        def show(now_s: float, events: int) -> None:
            wall_s = max(time.perf_counter() - started_s, 1e-9)
            status.update(
                f"[default]{now_s:,.3f}{target} virtual seconds, {events:,} events "
                f"({events / wall_s:,.0f} a second)"
            )

        yield show

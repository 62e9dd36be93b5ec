"""Progress of a long run: one line that is overwritten, on a terminal or in a notebook.

On a terminal the line disappears when the run ends; in a notebook its last text stays, as one
output of its own, which needs no widget to be shown (``rich.progress`` would store one). In logs
and pipes a line is written every half a minute (``rich.progress`` writes at the end alone). No
thread updates the line, so that what is being timed has the processor to itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from rich.live import Live

Progress = Callable[[float, int], None]
"""Called a few times a second with virtual seconds and events so far."""


def check_progress(progress: Any) -> None:
    """Refuse what is neither None nor a truth value nor a function."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise UserError(
            f"progress is {progress!r}; give True, or a function of virtual seconds and events, "
            "such as lambda now_s, events: print(now_s)"
        )


EVERY_S = 0.2
"""Least time between two updates of the line."""

EVERY_LOGGED_S = 30.0
"""Seconds from one line in a log to the next, and until the first."""

AFTER_S = 1.0
"""A shorter run shows no steps."""


class Line:
    """A line that each call overwrites, `after_s` seconds after it was made at the earliest.

    It is written to standard error, or the notebook, unless a console is given.
    """

    def __init__(self, console: Console | None = None, after_s: float = 0.0) -> None:
        self.console = console or Console(stderr=True)
        self.started_s = time.perf_counter()
        self._live: Live | None = None  # on a terminal
        self._output: Any = None  # in a notebook
        self._logs = not self.console.is_jupyter and (
            not self.console.is_terminal or self.console.is_dumb_terminal
        )
        self._every_s = EVERY_LOGGED_S if self._logs else EVERY_S
        self._next_s = self.started_s + max(after_s, EVERY_LOGGED_S if self._logs else 0)

    @property
    def elapsed_s(self) -> float:
        """Wall seconds since it was made."""
        return time.perf_counter() - self.started_s

    def __call__(self, text: str) -> None:
        """Overwrite the line, unless that was done a moment ago."""
        now_s = time.perf_counter()
        if now_s >= self._next_s:
            self._next_s = now_s + self._every_s
            self._show(text)

    def close(self, text: str | None = None) -> None:
        """Show a last text: it stays in a notebook, and disappears with the line on a terminal."""
        if text and (self._live is not None or self._output is not None):
            self._show(text)
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self, text: str) -> None:
        if self._logs:
            print(text, file=self.console.file, flush=True)
        elif not self.console.is_jupyter:
            from rich.live import Live
            from rich.text import Text

            if self._live is None:
                self._live = Live(console=self.console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            from IPython import display

            data, shows = {"text/plain": text}, cast(Any, display.display)
            if self._output is None:
                self._output = shows(data, raw=True, display_id=True)
            else:
                self._output.update(data, raw=True)


class Steps:
    """The current step of a run of several, and its time; `steps` makes one.

    Call it with what a step is about when the step begins.
    """

    def __init__(self, title: str, total: int, line: Line) -> None:
        self.title, self.total, self.line = title, total, line
        self.step, self.what = 0, ""

    def __call__(self, what: str) -> None:
        """Begin the next step."""
        self.step, self.what = self.step + 1, what
        self.line(self.text())

    def within(self, detail: str) -> None:
        """Show how far the step is."""
        self.line(self.text(detail))

    def virtual(self, now_s: float, events: int) -> None:
        """Show how far a simulation within the step is: pass this to `simulate` as `progress`."""
        self.within(f"{now_s:,.1f} virtual seconds, {events:,} events")

    def until(self, end_s: float) -> Progress:
        """Return a `progress` for a simulation whose end is known."""
        return lambda now_s, _: self.within(
            f"{min(99.0, 100 * now_s / end_s):.0f} % of {end_s:,.0f} virtual seconds"
        )

    def text(self, detail: str = "") -> str:
        """The line: title, step, seconds in all, what the step is about, how far it is."""
        at = f"{self.title}: step {self.step} of {self.total}, {self.line.elapsed_s:.0f} s"
        return ", ".join(part for part in (at, self.what, detail) if part)


@contextmanager
def steps(title: str, total: int, console: Console | None = None) -> Iterator[Steps]:
    """Show which of `total` steps a run is at, once it has taken `AFTER_S`.

    ``with progress.steps("Figure 11", 8) as step: for count in ...: step(f"{count} workers")``
    """
    line = Line(console, AFTER_S)
    progress = Steps(title, total, line)
    try:
        yield progress
    except BaseException:
        line.close(f"{progress.text()}: not finished")
        raise
    line.close(f"{title}: {progress.step} steps in {line.elapsed_s:.0f} s")


@contextmanager
def showing(
    text: Callable[[float, int], str], console: Console | None = None
) -> Iterator[Progress]:
    """Show the text for the virtual seconds and events so far while a simulation runs."""
    line, last = Line(console), ""

    def show(now_s: float, events: int) -> None:
        nonlocal last
        line(last := text(now_s, events))

    try:
        yield show
    finally:
        line.close(last)


def shown(
    until_s: float | None = None, console: Console | None = None
) -> AbstractContextManager[Progress]:
    """Show virtual seconds, events and their rate while a run goes on.

    ``with progress.shown() as show: simulate(..., progress=show)``; `simulate` does so itself
    with ``progress=True``.
    """
    target = "" if until_s is None else f" of {until_s:g}"
    began_s = time.perf_counter()

    def text(now_s: float, events: int) -> str:
        rate = events / max(time.perf_counter() - began_s, 1e-9)
        return f"{now_s:,.3f}{target} virtual seconds, {events:,} events ({rate:,.0f} a second)"

    return showing(text, console)

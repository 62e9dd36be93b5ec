"""Shows progress: a live table where the terminal can, else lines."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from workbench.reproduce.progress import STYLES, Progress, Status, seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@contextlib.contextmanager
def shown(
    console: Console, progress: Mapping[str, Progress], heartbeat_s: float
) -> Iterator[Callable[[], None]]:
    """Show progress by notebook while the block runs, and yield a function that refreshes it.

    Where lines are printed, `heartbeat_s` is the longest silence.
    """
    if console.is_terminal and not console.is_dumb_terminal:
        from rich.live import Live

        with Live(
            console=console,
            get_renderable=lambda: _table(progress),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as live:
            yield live.refresh
        return
    lines = _Lines(console, progress, heartbeat_s)
    lines.refresh()
    try:
        yield lines.refresh
    finally:
        lines.refresh()


class _Lines:
    """A line per start and end, and a heartbeat in between: for logs."""

    def __init__(
        self, console: Console, progress: Mapping[str, Progress], heartbeat_s: float
    ) -> None:
        self.console = console
        self.progress = progress
        self.heartbeat_s = heartbeat_s
        self.printed: dict[str, Status] = {}
        self.printed_s = time.monotonic()

    def refresh(self) -> None:
        """Print what has changed since the last time."""
        for name, one in self.progress.items():
            status = one.status
            if status == self.printed.get(name, "waiting"):
                continue
            if name not in self.printed and status not in ("unchanged", "stopped"):
                self._line(f"{name}: started, {one.cells} cells ({one.reason})")
            if status == "unchanged":
                self._line(f"{name}: unchanged, not run again (--force runs it)")
            elif status != "running":
                self._line(f"{name}: {status} after {seconds(one.elapsed_s)}")
            self.printed[name] = status
        if time.monotonic() - self.printed_s >= self.heartbeat_s:
            for name, one in self.progress.items():
                if one.status == "running":
                    at = f"cell {one.cell} of {one.cells}, {one.title}"
                    self._line(f"{name}: {at}, {seconds(one.elapsed_s)}")

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
        self.printed_s = time.monotonic()


def _table(progress: Mapping[str, Progress]) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for _ in range(5):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for name, one in progress.items():
        status = one.status
        cells = one.cell if status in ("running", "failed", "stopped") else one.cells
        cells = 0 if status == "waiting" else cells
        done = max(cells - 1, 0) if status == "running" else cells
        table.add_row(
            Text(status, style=STYLES[status]),
            Text(name),
            ProgressBar(total=max(one.cells, 1), completed=done, width=16),
            Text(f"{cells}/{one.cells}"),
            Text("" if status in ("waiting", "unchanged") else seconds(one.elapsed_s)),
            Text(one.title if status == "running" else "", style="dim"),
        )
    return table

"""What each notebook is doing now, as a live table where the terminal can show one, else lines."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Status = Literal["waiting", "running", "ran", "unchanged", "failed", "stopped"]

STYLES: dict[Status, str] = {
    "waiting": "dim",
    "running": "cyan",
    "ran": "green",
    "unchanged": "green",
    "failed": "bold red",
    "stopped": "yellow",
}
"""How rich shows each status."""

HEARTBEAT_S = 15.0
"""The longest silence where lines are printed."""


@dataclass
class Progress:
    """What one notebook is doing now; its own thread writes it, the display reads it.

    `cells` counts code cells, `cell` is the number of the one now running and `title` its title;
    `section` is the last heading so far. `started_s` is of the monotonic clock. `reason` says why
    it has to run, `message` is its error or empty.
    """

    cells: int
    status: Status = "waiting"
    reason: str = ""
    cell: int = 0
    title: str = ""
    section: str = ""
    started_s: float = 0.0
    wall_s: float = 0.0
    message: str = ""

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began, until it ended."""
        return time.monotonic() - self.started_s if self.status == "running" else self.wall_s

    @property
    def where(self) -> str:
        """The place in the notebook: ``"cell 3 of 4 (Figure 5)"``."""
        if not self.cell:
            return "the start of its kernel"
        return f"cell {self.cell} of {self.cells}" + (f" ({self.title})" if self.title else "")

    def begin(self) -> None:
        """Start the clock."""
        self.started_s = time.monotonic()
        self.status = "running"

    def begin_cell(self, cell: Mapping[str, Any]) -> None:
        """Record the cell that starts; its title is the heading above it, or its first line."""
        lines = [line.strip() for line in cell["source"].splitlines() if line.strip()]
        if cell["cell_type"] == "markdown":
            headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
            self.section = headings[0] if headings else self.section
        elif cell["cell_type"] == "code":
            tags = cell["metadata"].get("tags", ())
            self.cell += "injected-parameters" not in tags
            self.title = self.section or (lines[0] if lines else "")

    def end(self, status: Status, message: str = "") -> None:
        """Stop the clock."""
        self.wall_s = time.monotonic() - self.started_s
        self.message = message
        self.status = status


def seconds(duration_s: float) -> str:
    """Return a readable duration: ``"2.5 s"``, ``"3 min 20 s"``."""
    if round(duration_s, 1) < 60:
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes} min {rest} s"


@contextlib.contextmanager
def shown(console: Console, progress: Mapping[str, Progress]) -> Iterator[Callable[[], None]]:
    """Show progress by notebook while the block runs, and yield a function that refreshes it."""
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
    lines = _Lines(console, progress)
    lines.refresh()
    try:
        yield lines.refresh
    finally:
        lines.refresh()


class _Lines:
    """A line per start and end, and a heartbeat in between: for logs."""

    def __init__(self, console: Console, progress: Mapping[str, Progress]) -> None:
        self.console = console
        self.progress = progress
        self.printed: dict[str, Status] = {}
        self.printed_s = time.monotonic()

    def refresh(self) -> None:
        """Print what has changed since the last time."""
        for name, state in self.progress.items():
            status = state.status
            if status == self.printed.get(name, "waiting"):
                continue
            if name not in self.printed and status not in ("unchanged", "stopped"):
                self._line(f"{name}: started, {state.cells} cells ({state.reason})")
            if status == "unchanged":
                self._line(f"{name}: finished before at this commit (--force runs it again)")
            elif status != "running":
                self._line(f"{name}: {status} after {seconds(state.elapsed_s)}")
            self.printed[name] = status
        if time.monotonic() - self.printed_s >= HEARTBEAT_S:
            for name, state in self.progress.items():
                if state.status == "running":
                    at = f"cell {state.cell} of {state.cells}, {state.title}"
                    self._line(f"{name}: {at}, {seconds(state.elapsed_s)}")

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
        self.printed_s = time.monotonic()


def _table(progress: Mapping[str, Progress]) -> Table:
    """Show how many are over, and those that run."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for _ in range(5):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    counts = Counter(state.status for state in progress.values())
    rest: list[Status] = ["failed", "waiting"]
    texts = [f"{counts[status]} {status}" for status in rest if counts[status]]
    over = len(progress) - counts["waiting"] - counts["running"]
    table.add_row(
        "",
        Text(", ".join([f"{over} of {len(progress)} over", *texts])),
        ProgressBar(total=len(progress), completed=over, width=16),
    )
    for name, state in progress.items():
        if state.status == "running":
            table.add_row(
                Text("running", style=STYLES["running"]),
                Text(name),
                ProgressBar(total=state.cells, completed=max(state.cell - 1, 0), width=16),
                Text(f"{state.cell}/{state.cells}"),
                Text(seconds(state.elapsed_s)),
                Text(state.title, style="dim"),
            )
    return table

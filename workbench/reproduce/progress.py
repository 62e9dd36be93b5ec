"""What each notebook is doing now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
        """Record the start."""
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
        """Record the end."""
        self.wall_s = time.monotonic() - self.started_s
        self.message = message
        self.status = status


def seconds(duration_s: float) -> str:
    """Return a readable duration: ``"2.5 s"``, ``"3 min 20 s"``."""
    if round(duration_s, 1) < 60:
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes} min {rest} s"

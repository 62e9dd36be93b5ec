"""Outcomes of a run, and how they are printed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import results
from workbench.reproduce.progress import STYLES, Progress, Status, seconds
from workbench.store.folder import failed_copy

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Outcome:
    """Outcome of one notebook; one that was interrupted, or never begun, is ``"stopped"``.

    `place` is the folder of its results, or the executed copy that holds the error, of which
    `message` tells; None where there is neither.
    """

    notebook: str
    status: Status
    wall_s: float
    place: Path | None
    message: str = ""


@dataclass(frozen=True)
class Report:
    """Outcomes of all notebooks, in their order; whether an interrupt ended the run.

    `figures` are the copies that were made.
    """

    outcomes: tuple[Outcome, ...]
    interrupted: bool
    figures: tuple[Path, ...]

    @property
    def exit_status(self) -> int:
        """0 if every notebook is up to date, 130 after an interrupt, 1 if one failed."""
        if self.interrupted:
            return 130
        return int(any(outcome.status == "failed" for outcome in self.outcomes))


def outcome(output: Path, name: str, progress: Progress) -> Outcome:
    """Return the outcome of one notebook whose run is over."""
    status = progress.status if progress.status != "waiting" else "stopped"
    place = failed_copy(output, name) if status == "failed" else output / name
    kept = place if status != "stopped" and place.exists() else None
    return Outcome(name, status, progress.wall_s, kept, progress.message)


def print_report(console: Console, report: Report, output: Path, figures: Path | None) -> None:
    """Print a line per notebook, then the errors, then copied figures and remaining notebooks."""
    from rich.text import Text

    def line(*parts: str | tuple[str, str]) -> None:
        console.print(Text.assemble(*parts), soft_wrap=True)

    width = max(len(outcome.notebook) for outcome in report.outcomes)
    line()
    for outcome in report.outcomes:
        line(
            f"{outcome.notebook:<{width}}  ",
            (f"{outcome.status:<9}", STYLES[outcome.status]),
            f"  {seconds(outcome.wall_s):>8}" if outcome.wall_s else " " * 10,
            f"  {near(outcome.place)}" if outcome.place else "",
        )
    for outcome in report.outcomes:
        if outcome.status == "failed":
            line()
            line(f"{outcome.notebook} failed in {outcome.message}")
            kept = results.read_manifest(output / outcome.notebook)
            if kept is not None:
                line(f"Its results from {kept.made_at} are still in {near(output)}.")
    if report.figures and figures is not None:
        count = len(report.figures)
        line(f"{count} figure{'' if count == 1 else 's'} in {near(figures)}")
    if report.interrupted:
        stopped = [outcome.notebook for outcome in report.outcomes if outcome.status == "stopped"]
        line()
        line(
            "Interrupted. Finished notebooks are kept; the same command goes on with "
            f"{', '.join(stopped) or 'nothing: all are finished'}."
        )


def near(path: Path) -> str:
    """Return a path relative to the current directory, if it is below it."""
    path = path.resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)

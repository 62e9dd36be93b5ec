"""The line that shows progress: on a terminal, in a notebook, and where nobody looks."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.reproduction.helpers import nbformat, write_notebook
from workbench.runtime import progress
from workbench.runtime.progress import Line


class Clock:
    """Stands in for `time`, and for the work between two looks at it."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def perf_counter(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, force_jupyter=False, width=100)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_sees_steps_and_is_left_clean(clock: Clock) -> None:
    console = terminal()
    with progress.steps("Figure 11", 3, console) as step:
        for number in range(3):
            step(f"{number} workers")
            clock.now_s += 2
            step.virtual(1234.5, 6789)
    text = written(console)
    assert "Figure 11: step 1 of 3, 2 s, 0 workers, 1,234.5 virtual seconds, 6,789 events" in text
    assert "Figure 11: step 3 of 3, 6 s, 2 workers" in text
    assert text.endswith("\r\x1b[1A\x1b[2K")  # up to the line, and the line is gone


def test_what_is_soon_over_shows_nothing(clock: Clock) -> None:
    console = terminal()
    with progress.steps("Figure 12", 9, console) as step:
        for number in range(9):
            step(str(number))
            clock.now_s += 0.9 * progress.AFTER_S / 9
    assert written(console) == ""


def test_the_line_is_not_written_over_at_every_call(clock: Clock) -> None:
    console = terminal()
    line = Line(console)
    for number in range(1000):
        clock.now_s += progress.EVERY_S / 100
        line(f"<{number}>")
    line.close()
    assert 10 <= written(console).count("<") <= 2 * 11  # once begun, rich draws the first twice


@pytest.mark.parametrize(
    "console",
    [
        Console(file=io.StringIO(), force_terminal=False, force_jupyter=False),
        Console(
            file=io.StringIO(), force_terminal=True, force_jupyter=False, _environ={"TERM": "dumb"}
        ),
    ],
    ids=["pipe", "dumb"],
)
def test_logs_get_a_line_every_half_a_minute(console: Console, clock: Clock) -> None:
    with progress.steps("Figure 10", 8, console) as step:
        for number in range(8):
            step(str(number))
            clock.now_s += 10
    lines = ["Figure 10: step 4 of 8, 30 s, 3", "Figure 10: step 7 of 8, 60 s, 6"]
    assert written(console).splitlines() == lines


def test_a_failure_goes_through_and_the_terminal_is_left_clean(clock: Clock) -> None:
    console = terminal()

    def interrupted() -> None:
        with progress.steps("Figure 10", 2, console) as step:
            clock.now_s += 60
            step("sequential")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "not finished" in written(console)
    assert written(console).endswith("\x1b[2K")


NOTEBOOK = """
import time
from workbench.runtime import progress
progress.AFTER_S, progress.EVERY_S = {after_s}, 0.0
print("before")
with progress.steps("Figure 10", 2) as step:
    step("sequential")
    step("dynacomm")
    step.within("half way"){stopped}
print("after")
"""


@pytest.mark.parametrize(
    ("after_s", "stopped", "stays"),
    [
        (0.0, "", "Figure 10: 2 steps in 0 s"),
        (0.0, "\n    raise ValueError", "Figure 10: step 2 of 2, 0 s, dynacomm: not finished"),
        (60.0, "", None),
    ],
    ids=["done", "failed", "short"],
)
def test_one_line_or_none_is_stored_in_a_notebook(
    tmp_path: Path, after_s: float, stopped: str, stays: str | None
) -> None:
    outputs = executed(NOTEBOOK.format(after_s=after_s, stopped=stopped), tmp_path, bool(stopped))
    shown = [one["data"] for one in outputs if one["output_type"] == "display_data"]
    assert shown == ([] if stays is None else [{"text/plain": stays}])
    streams = [one for one in outputs if one["output_type"] == "stream"]
    assert {one["name"] for one in streams} == {"stdout"}
    assert "".join(one["text"] for one in streams).split()[0] == "before"


def executed(source: str, folder: Path, fails: bool) -> list[dict[str, Any]]:
    """Outputs of a cell that papermill has run, as they are stored."""
    import papermill

    given = write_notebook(folder / "given.ipynb", source, parameters="")
    made = folder / "made.ipynb"
    failing = pytest.raises(papermill.PapermillExecutionError, match="ValueError")
    with failing if fails else contextlib.nullcontext():
        papermill.execute_notebook(str(given), str(made), progress_bar=False, kernel_name="python3")
    cells = nbformat.read(made, as_version=4).cells
    return list(next(cell for cell in cells if "progress.steps" in cell.source).outputs)

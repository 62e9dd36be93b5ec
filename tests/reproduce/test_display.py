"""Progress shows as a table that is redrawn, or as lines."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.reproduce.helpers import run, statuses, write_notebook
from workbench.reproduce import progress
from workbench.reproduce.progress import Progress, seconds, shown


def test_jobs_run_side_by_side(tmp_path: Path) -> None:
    """Each notebook waits for the other's sign, so they end only if both run at once."""
    meet = """\
import time
from pathlib import Path
Path("{mine}").touch()
end_s = time.monotonic() + 20
while not Path("{other}").exists():
    assert time.monotonic() < end_s
    time.sleep(0.05)
"""
    write_notebook(tmp_path / "notebooks" / "01_a.ipynb", meet.format(mine="a", other="b"))
    write_notebook(tmp_path / "notebooks" / "02_b.ipynb", meet.format(mine="b", other="a"))
    terminal = io.StringIO()
    report, _ = run(
        tmp_path, jobs=2, console=Console(file=terminal, force_terminal=True, width=100)
    )
    assert statuses(report) == {"01_a": "ran", "02_b": "ran"}
    assert "running" in terminal.getvalue()  # the live table was drawn
    assert "\x1b[" in terminal.getvalue()


def test_a_line_is_printed_now_and_then_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.3)
    wait = "# Long figure", "import time; time.sleep(1)"
    write_notebook(tmp_path / "notebooks" / "01_x.ipynb", *wait)
    _, text = run(tmp_path)
    assert "01_x: cell 2 of 2, Long figure, " in text


def test_terminal_that_cannot_redraw_gets_lines() -> None:
    text = io.StringIO()
    dumb = Console(file=text, force_terminal=True, _environ={"TERM": "dumb"})
    states = {"01_x": Progress(cells=2)}
    with shown(dumb, states):
        states["01_x"].begin()
    assert "01_x: started, 2 cells" in text.getvalue()


def test_of_more_than_fit_those_that_run_are_shown_and_how_many_are_over() -> None:
    text = io.StringIO()
    terminal = Console(file=text, force_terminal=True, width=100, height=20, color_system=None)
    states = {f"seed={at}": Progress(cells=2) for at in range(100)}
    for at in range(10):
        states[f"seed={at}"].begin()
        states[f"seed={at}"].end("failed" if at == 3 else "ran")
    states["seed=10"].begin()
    with shown(terminal, states) as refresh:
        refresh()
    lines = text.getvalue().splitlines()
    assert any("10 of 100 over, 1 failed, 89 waiting" in line for line in lines)
    assert any("running" in line and "seed=10 " in line for line in lines)
    assert "seed=9 " not in text.getvalue()


@pytest.mark.parametrize(
    ("duration_s", "written"), [(2.54, "2.5 s"), (59.97, "1 min 0 s"), (200.4, "3 min 20 s")]
)
def test_durations(duration_s: float, written: str) -> None:
    assert seconds(duration_s) == written

"""Ctrl-C, SIGTERM, kill -9: kernels end, what is finished stands, the next run goes on."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reproduce.helpers import KEPT, gone, hidden, run, statuses, stuck, write_notebook
from tests.test_parallel import wait_for
from workbench.reproduce import runner
from workbench.reproduce.driver import one_interrupt
from workbench.reproduce.execution import Kernels

# Tells its process id, then waits until it is let go.
SLOW = """\
import os, time
from pathlib import Path
Path(os.environ["PID_FILE"] + ".part").write_text(str(os.getpid()))
Path(os.environ["PID_FILE"] + ".part").rename(os.environ["PID_FILE"])
while not Path(os.environ["GO_FILE"]).exists():
    time.sleep(0.05)
"""


@contextlib.contextmanager
def slow(root: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a quick and a slow notebook until the latter hangs: the process, its kernel's id."""
    notebooks, pid = root / "notebooks", root / "pid"
    write_notebook(notebooks / "01_quick.ipynb", KEPT, "1")  # no fewer cells: it begins
    write_notebook(notebooks / "02_slow.ipynb", KEPT, "# The long part", SLOW)
    where = ("--notebooks", str(notebooks), "--output", str(root / "out"), "--jobs", "1")
    seen = {"PID_FILE": str(pid), "GO_FILE": str(root / "go"), "COLUMNS": "200"}
    with stuck(pid.exists, root / "go", "reproduce", *where, **seen) as process:
        yield process, int(pid.read_text())


def go_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run the same notebooks again with nothing to wait for."""
    (root / "go").touch()
    monkeypatch.setenv("PID_FILE", str(root / "pid"))
    monkeypatch.setenv("GO_FILE", str(root / "go"))
    return statuses(run(root)[0])


def test_goes_on_after_kill_9_and_refuses_company(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with slow(tmp_path) as (process, kernel):
        with pytest.raises(ValueError, match=f"process {process.pid}.*--output DIR"):
            run(tmp_path)
        (partial,) = out.glob(".02_slow.partial-*")
        assert (partial / "early.parquet").is_file()
        assert sorted(path.name for path in out.glob("[!.]*")) == ["01_quick"]
        process.kill()
        process.wait()
        wait_for(lambda: gone(kernel), seconds=5)  # nobody is left to end it: it ends itself
    assert sorted(path.name for path in out.glob("[!.]*")) == ["01_quick"]
    assert go_on(tmp_path, monkeypatch) == {"01_quick": "unchanged", "02_slow": "ran"}
    assert hidden(out) == [".lock"]


@pytest.mark.parametrize(
    ("first", "second"),
    [(signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGHUP)],
    ids=["SIGINT", "SIGTERM"],
)
def test_interrupt_ends_kernels_and_says_how_to_go_on(
    tmp_path: Path, first: signal.Signals, second: signal.Signals
) -> None:
    out = tmp_path / "out"
    with slow(tmp_path) as (process, kernel):
        process.send_signal(first)
        time.sleep(0.05)
        process.send_signal(second)  # while it tidies up: changes nothing
        text, _ = process.communicate(timeout=20)
        assert process.returncode == 130
        assert gone(kernel)
    assert "Traceback" not in text
    assert (
        "Interrupted. Finished notebooks are kept; the same command goes on with 02_slow." in text
    )
    assert hidden(out) == [".lock"]
    assert sorted(path.name for path in out.glob("[!.]*")) == ["01_quick"]


def test_what_was_finished_when_the_interrupt_came_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(*arguments: Any) -> str:
        kernels: Kernels = arguments[-1]
        kernels.end_all()
        return ""

    monkeypatch.setattr(runner, "execute", execute)
    write_notebook(tmp_path / "notebooks" / "01_x.ipynb")
    assert statuses(run(tmp_path)[0]) == {"01_x": "ran"}
    assert (tmp_path / "out" / "01_x" / "manifest.json").is_file()


def test_handlers_of_before_are_restored_and_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    found = signal.default_int_handler  # ignored where the tests themselves run in the background
    before_interrupt = signal.signal(signal.SIGINT, found)
    try:
        with one_interrupt():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) == found
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGINT, before_interrupt)

"""Notebooks run beside each other; each result is kept whole, whatever ends the run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.reproduction.helpers import (
    KEPT,
    Finished,
    gone,
    hidden,
    kernels_below,
    nbformat,
    run,
    statuses,
    stuck,
    write_notebook,
)
from tests.test_parallel import wait_for
from workbench.reproduction import reproduce, results
from workbench.reproduction.execution import Outcome
from workbench.reproduction.reproduce import one_interrupt
from workbench.utils import instruction_set


def test_failing_notebooks_do_not_stop_the_others(finished: Finished) -> None:
    _, report, _ = finished
    assert statuses(report) == {
        "01_good": "ran",
        "02_bad": "failed",
        "03_dies": "failed",
        "04_plain": "ran",
    }
    assert report.exit_status == 1


def test_finished_notebook_leaves_all_its_parts(finished: Finished) -> None:
    root, _, _ = finished
    folder = root / "out" / "01_good"
    kept = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    assert kept == [
        "01_good.ipynb",
        "fig1.parquet",
        "figures/fig1.svg",
        "figures/fig1.vl.json",
        "manifest.json",
    ]
    assert pl.read_parquet(folder / "fig1.parquet")["y"].to_list() == [32, 7]
    assert (root / "figures" / "good_fig1.svg").read_bytes() == (
        folder / "figures" / "fig1.svg"
    ).read_bytes()


def test_the_manifest_says_how_results_came_about(finished: Finished) -> None:
    root, _, _ = finished
    manifest = results.load(root / "out", "good").manifest
    assert manifest is not None
    assert manifest.arguments == {
        "scale": "default",
        "seed": 7,
        "batch_size": 32,
        "bandwidth_mbps": 1000.0,
    }
    assert manifest.altered(root / "out" / "01_good") == []
    assert set(manifest.outputs) >= {"01_good.ipynb", "fig1.parquet", "figures/fig1.svg"}
    assert {"python", "workbench", "polars", "altair", "torch"} <= set(manifest.versions)
    assert manifest.versions["python"] == sys.version.split()[0]
    assert manifest.instruction_set == instruction_set.record()
    assert str(dict(manifest.instruction_set)) in (root / "out/01_good/01_good.ipynb").read_text()
    assert 0 < manifest.seconds < 60


def test_executed_copy_can_be_run_by_hand(finished: Finished) -> None:
    """It shows figure and text, and does not write into the folder that is gone."""
    root, _, _ = finished
    text = (root / "out" / "01_good" / "01_good.ipynb").read_text()
    assert ".partial-" not in text
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    (injected,) = [
        cell for cell in notebook.cells if "injected-parameters" in cell.metadata.get("tags", [])
    ]
    assert injected.source.splitlines()[1:] == [
        'scale = "default"',
        "seed = 7",
        "batch_size = 32",
        "bandwidth_mbps = 1000.0",
        'output = ""',
    ]
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert any(output.get("text") == "default 7\n" for output in outputs)


def test_kernel_is_this_interpreter_in_the_notebooks_folder(finished: Finished) -> None:
    root, _, _ = finished
    notebook = json.loads((root / "out" / "04_plain" / "04_plain.ipynb").read_text())
    printed = "".join(notebook["cells"][-1]["outputs"][0]["text"]).splitlines()
    policy = os.environ.get("OMP_WAIT_POLICY", "PASSIVE")
    assert printed == [sys.executable, str(root / "notebooks"), policy]


def test_a_failure_is_reported_as_the_notebooks_own(finished: Finished) -> None:
    root, report, text = finished
    failed = report.outcomes["02_bad"]
    assert failed.place is not None
    assert failed.place == root / "out" / "02_bad.failed.ipynb"
    assert failed.message.startswith("cell 3 of 4 (Where it breaks): KeyError: 'such key'")
    assert "papermill" not in failed.message
    assert "02_bad failed in cell 3 of 4" in text
    assert str(failed.place) in text
    executed = failed.place.read_text()
    assert "KeyError" in executed
    assert ".partial-" not in executed
    assert not (root / "out" / "02_bad").exists()


def test_a_dead_kernel_is_reported(finished: Finished) -> None:
    root, report, _ = finished
    dead = report.outcomes["03_dies"]
    assert "kernel died" in dead.message
    assert "encryption" not in dead.message  # no chatter of the kernel's own
    assert (root / "out" / "03_dies.failed.ipynb").is_file()


def test_no_leftovers(finished: Finished) -> None:
    root, _, _ = finished
    assert hidden(root / "out") == [".lock"]
    assert kernels_below(os.getpid()) == []
    assert gone(int((root / "notebooks" / "child").read_text()))  # of the kernel that died


def test_failure_keeps_the_last_good_result(tmp_path: Path) -> None:
    path = tmp_path / "notebooks" / "01_x.ipynb"
    write_notebook(path, KEPT)
    run(tmp_path)
    before = (tmp_path / "out" / "01_x" / "manifest.json").read_bytes()
    write_notebook(path, KEPT, "1/0")
    report, text = run(tmp_path)
    assert statuses(report) == {"01_x": "failed"}
    assert (tmp_path / "out" / "01_x" / "manifest.json").read_bytes() == before
    assert "are still in" in text


def test_a_line_is_printed_when_a_notebook_ends(finished: Finished) -> None:
    _, _, text = finished
    lines = text.splitlines()
    assert lines[0] == (
        "4 notebooks to run at scale default; one training of each system runs here, others are "
        "shown as recorded; all notebooks take about 5 minutes on two quiet cores"
    )
    assert any(line.startswith("01_good: ran after ") for line in lines)
    assert any(line.startswith("02_bad: failed after ") for line in lines)
    assert "1 figure in " in text


@pytest.mark.parametrize(("trainings", "says_one"), [("one", True), ("all", False)])
def test_announcement_says_whether_all_trainings_run(trainings: str, says_one: bool) -> None:
    text = reproduce.announcement(8, "smoke", trainings)
    assert text.startswith("8 notebooks to run at scale smoke")
    assert ("one training of each system runs here" in text) is says_one


def test_jobs_run_side_by_side(tmp_path: Path) -> None:
    """Each notebook waits for the other's sign, so they end only if both run at once."""
    meet = """\
import time
from pathlib import Path
Path("{mine}").touch()
end_s = time.monotonic() + 100
while not Path("{other}").exists():
    assert time.monotonic() < end_s
    time.sleep(0.05)
"""
    write_notebook(tmp_path / "notebooks" / "01_a.ipynb", meet.format(mine="a", other="b"))
    write_notebook(tmp_path / "notebooks" / "02_b.ipynb", meet.format(mine="b", other="a"))
    report, _ = run(tmp_path, jobs=2)
    assert statuses(report) == {"01_a": "ran", "02_b": "ran"}


def test_longest_notebook_begins_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, cells in (("01_short", 1), ("02_long", 3), ("03_middling", 2)):
        write_notebook(tmp_path / "notebooks" / f"{name}.ipynb", *["1"] * cells)
    begun = list[str]()

    def as_finished(_: object, calls: list[tuple[object]], *__: object, **___: object) -> object:
        begun.extend(call[0].notebook.name for call in calls)  # type: ignore[attr-defined]
        return (pair for pair in ((at, Outcome("ran")) for at in range(len(calls))))

    monkeypatch.setattr("workbench.utils.parallel.as_finished", as_finished)
    run(tmp_path, jobs=1)
    assert begun == ["02_long", "03_middling", "01_short"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "file/out"}, "cannot write to"),
        ({"output": "locked"}, r"cannot write to .*\.lock"),
        ({"figures": "file"}, "file: there is a file in its place"),
    ],
)
def test_folder_that_cannot_be_written_is_refused_before_anything_runs(
    two: Path, options: dict[str, str], message: str
) -> None:
    (two / "file").touch()
    (two / "locked" / ".lock").mkdir(parents=True)
    with pytest.raises(ValueError, match=message):
        run(two, **{name: two / path for name, path in options.items()})
    assert not (two / "out").exists()


# Writes its process id, then waits until it is let go.
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
    folders = ("--notebooks", str(notebooks), "--output", str(root / "out"), "--jobs", "1")
    environment = {"PID_FILE": str(pid), "GO_FILE": str(root / "go"), "COLUMNS": "200"}
    with stuck(pid.exists, root / "go", "reproduce", *folders, **environment) as process:
        yield process, int(pid.read_text())


def test_killed_run_leaves_what_is_finished_and_the_next_completes(
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
        wait_for(lambda: gone(kernel))  # nobody is left to end it: it ends itself
    assert sorted(path.name for path in out.glob("[!.]*")) == ["01_quick"]
    monkeypatch.setenv("PID_FILE", str(tmp_path / "pid"))
    monkeypatch.setenv("GO_FILE", str(tmp_path / "go"))
    assert statuses(run(tmp_path)[0]) == {"01_quick": "ran", "02_slow": "ran"}
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
        process.send_signal(second)  # while it tidies up: changes nothing
        text, _ = process.communicate(timeout=120)
        assert process.returncode == 130
        assert gone(kernel)
    assert "Traceback" not in text
    assert "Notebooks that ran are kept; name the others to run them: 02_slow" in text
    assert hidden(out) == [".lock"]
    assert sorted(path.name for path in out.glob("[!.]*")) == ["01_quick"]


def test_handlers_are_restored_and_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    usual = signal.default_int_handler  # ignored where the tests themselves run in the background
    before_interrupt = signal.signal(signal.SIGINT, usual)
    try:
        with one_interrupt():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) == usual
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGINT, before_interrupt)

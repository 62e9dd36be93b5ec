"""One notebook: its results are whole or not there, its failure is said in its own words."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reproduction.helpers import KEPT, hidden, write_notebook
from workbench.reproduction import execution, provenance
from workbench.reproduction.execution import Task, bring_home, duration, run, run_elsewhere
from workbench.reproduction.notebook_files import read_notebook


def task(root: Path, *cells: str) -> Task:
    notebook = read_notebook(write_notebook(root / "notebooks" / "01_x.ipynb", *cells))
    (root / "out").mkdir(exist_ok=True)
    versions = provenance.all_versions()
    return Task("seed=0", notebook, notebook.defaults, root / "out", versions, None, None)


def test_whole_results_replace_damaged_ones(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(task(tmp_path, KEPT)).place == out / "01_x"
    frame = out / "01_x" / "early.parquet"
    content = frame.read_bytes()
    frame.write_bytes(b"PAR1")
    (out / "01_x.failed.ipynb").write_text("of an earlier failure")
    assert run(task(tmp_path, KEPT)).status == "ran"
    assert frame.read_bytes() == content
    assert not (out / "01_x.failed.ipynb").exists()
    assert hidden(out) == []


def test_results_that_cannot_be_written_are_a_failure(tmp_path: Path) -> None:
    outcome = run(task(tmp_path, "import shutil; shutil.rmtree(output)"))
    assert outcome.status == "failed"
    assert outcome.message.startswith("cell 2 of 2 (import shutil")
    assert "reading or writing failed" in outcome.message
    assert outcome.place == tmp_path / "out" / "01_x.failed.ipynb"
    assert outcome.place.is_file()


def test_full_disk_names_no_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "01_x.failed.ipynb").write_text("of an earlier failure")
    monkeypatch.setattr("workbench.utils.files.write_text", full)
    outcome = run(task(tmp_path, "1/0"))
    assert outcome.place is None
    assert not (tmp_path / "out" / "01_x.failed.ipynb").exists()
    assert "reading or writing failed: No space left on device" in outcome.message


def test_kernel_that_does_not_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    outcome = run(task(tmp_path))
    assert outcome.message.startswith("the start of its kernel: Kernel died")
    assert (tmp_path / "out" / "01_x.failed.ipynb").is_file()
    assert hidden(tmp_path / "out") == []


def test_lines_say_how_far_a_notebook_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(execution, "HEARTBEAT_S", 0.3)
    run(task(tmp_path, "# Long figure", "import time; time.sleep(1)"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed=0: started, 2 cells"
    assert any(line.startswith("seed=0: cell 2 of 2 (Long figure), ") for line in lines)


def test_machine_of_other_versions_runs_nothing(tmp_path: Path) -> None:
    asked = task(tmp_path, "open('ran', 'w')")
    asked = replace(asked, versions={**asked.versions, "torch": "other", "workbench": "other"})
    outcome, written = run_elsewhere(asked, tmp_path / "notebooks", False)
    assert outcome.status == "failed"
    assert outcome.message.endswith("differs from the machine that asked: workbench, torch")
    assert written == {}
    assert not (tmp_path / "notebooks" / "ran").exists()


@pytest.mark.parametrize(("cells", "status"), [([KEPT], "ran"), ([KEPT, "1/0"], "failed")])
def test_results_of_another_machine_come_home(
    tmp_path: Path, cells: list[str], status: str
) -> None:
    asked = task(tmp_path, *cells)
    elsewhere = replace(asked, output=Path("nowhere"))
    outcome, written = run_elsewhere(elsewhere, tmp_path / "notebooks", False)
    assert outcome.status == status
    assert not any((tmp_path / "out").iterdir())
    place = bring_home(asked, outcome, written).place
    if status == "ran":
        assert place == tmp_path / "out" / "01_x"
        assert {"01_x.ipynb", "early.parquet", "manifest.json"} == {
            path.name for path in place.iterdir()
        }
    else:
        assert place == tmp_path / "out" / "01_x.failed.ipynb"
        assert place.is_file()


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.54, "2.5 s"), (59.97, "1 min 0 s"), (200.4, "3 min 20 s")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text

"""Notebooks run from start to end; what they make is kept whole, and told."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.reproduce.helpers import (
    KEPT,
    Finished,
    gone,
    hidden,
    kernels_below,
    nbformat,
    run,
    statuses,
    write_notebook,
)
from workbench import results
from workbench.parameters import Value
from workbench.reproduce import driver, runner
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


def test_the_longest_notebook_begins_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, cells in (("01_short", 1), ("02_long", 3), ("03_middling", 2)):
        write_notebook(tmp_path / "notebooks" / f"{name}.ipynb", *["1"] * cells)
    begun = list[str]()
    monkeypatch.setattr(driver, "run", lambda task, _: begun.append(task.notebook.name))
    run(tmp_path, jobs=1)
    assert begun == ["02_long", "03_middling", "01_short"]


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
    manifest = results.manifest(root / "out", "good")
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
    assert manifest.instruction_set == instruction_set.record(new_process=True)
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
    (failed,) = [outcome for outcome in report.outcomes if outcome.notebook == "02_bad"]
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
    (dead,) = [outcome for outcome in report.outcomes if outcome.notebook == "03_dies"]
    assert "kernel died" in dead.message
    assert "encryption" not in dead.message  # no chatter of the kernel's own
    assert (root / "out" / "03_dies.failed.ipynb").is_file()


def test_no_leftovers(finished: Finished) -> None:
    root, _, _ = finished
    assert hidden(root / "out") == [".lock"]
    assert kernels_below(os.getpid()) == []
    assert gone(int((root / "notebooks" / "child").read_text()))  # of the kernel that died


def test_plain_lines_tell_start_and_end(finished: Finished) -> None:
    _, _, text = finished
    lines = text.splitlines()
    assert "01_good: started, 3 cells (no results yet)" in lines
    assert any(line.startswith("01_good: ran after ") for line in lines)
    assert any(line.startswith("02_bad: failed after ") for line in lines)
    assert "1 figure in " in text


def test_unchanged_notebooks_are_not_run_again(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _, _ = finished
    monkeypatch.setattr(runner, "execute", None)  # running anything would fail
    before = (root / "out" / "01_good" / "manifest.json").stat().st_mtime_ns
    report, text = run(root, "01", "plain", given={"seed": "7", "repeats": "3"})
    assert statuses(report) == {"01_good": "unchanged", "04_plain": "unchanged"}
    assert report.exit_status == 0
    assert (root / "out" / "01_good" / "manifest.json").stat().st_mtime_ns == before
    assert "01_good: finished before at this commit" in text


def test_spoilt_results_are_made_again(tmp_path: Path) -> None:
    write_notebook(tmp_path / "notebooks" / "01_x.ipynb", KEPT)
    run(tmp_path)
    kept = tmp_path / "out" / "01_x" / "early.parquet"
    whole = kept.read_bytes()
    kept.write_bytes(b"PAR1")
    (tmp_path / "out" / "01_x.failed.ipynb").write_text("of an earlier failure")
    report, text = run(tmp_path)
    assert statuses(report) == {"01_x": "ran"}
    assert "altered or missing: early.parquet" in text
    assert kept.read_bytes() == whole
    assert not (tmp_path / "out" / "01_x.failed.ipynb").exists()


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


def test_results_that_cannot_be_written_are_a_failure_among_others(tmp_path: Path) -> None:
    notebooks = tmp_path / "notebooks"
    write_notebook(notebooks / "01_x.ipynb", "import shutil; shutil.rmtree(output)")
    write_notebook(notebooks / "02_y.ipynb")
    report, text = run(tmp_path)
    assert statuses(report) == {"01_x": "failed", "02_y": "ran"}
    assert "01_x failed in cell 2 of 2 (import shutil" in text
    assert "reading or writing failed" in text
    assert report.outcomes[0].place == tmp_path / "out" / "01_x.failed.ipynb"
    assert report.outcomes[0].place.is_file()


def test_a_run_on_a_full_disk_names_no_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    write_notebook(tmp_path / "notebooks" / "01_x.ipynb", "1/0")
    report, _ = run(tmp_path)
    assert report.outcomes[0].place == tmp_path / "out" / "01_x.failed.ipynb"
    assert report.outcomes[0].place.is_file()
    monkeypatch.setattr("workbench.reproduce.runner.files.write_text", full)
    report, text = run(tmp_path)
    assert statuses(report) == {"01_x": "failed"}
    assert report.outcomes[0].place is None
    assert not (tmp_path / "out" / "01_x.failed.ipynb").exists()
    assert "reading or writing failed: No space left on device\n" in text
    assert "01_x.failed.ipynb" not in text
    assert ".part" not in text


def test_a_kernel_that_does_not_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    write_notebook(tmp_path / "notebooks" / "01_x.ipynb")
    report, text = run(tmp_path)
    assert statuses(report) == {"01_x": "failed"}
    assert "01_x failed in the start of its kernel: Kernel died" in text
    assert (tmp_path / "out" / "01_x.failed.ipynb").is_file()
    assert hidden(tmp_path / "out") == [".lock"]


@pytest.mark.parametrize(("which", "says_one"), [("one", True), ("all", False)])
def test_the_first_line_says_whether_all_trainings_run(which: str, says_one: bool) -> None:
    values: dict[str, dict[str, Value]] = {
        "00": {"scale": "smoke"},
        "01": {"scale": "smoke", "trainings": which},
    }
    text = driver.announced([], values)
    assert ("one training of each system runs here" in text) is says_one

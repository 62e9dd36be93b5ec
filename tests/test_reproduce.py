"""The driver keeps whole results only, whatever happens, and runs nothing it need not run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat as untyped_nbformat
import polars as pl
import psutil  # type: ignore[import-untyped]
import pytest
from rich.console import Console

import workbench
from workbench import reproduce as driver
from workbench import results
from workbench.reproduce import Report, find, fingerprint, read_notebook, reproduce, resolve

nbformat: Any = untyped_nbformat

PARAMETERS = """\
scale: str = "smoke"
seed: int = 0
batch_size: int = 32
bandwidth_mbps: float = 1000
output: str = ""
"""
FIGURE = """\
import altair as alt
import polars as pl
from workbench.results import Results
results = Results("good", output)
frame = pl.DataFrame({"x": [1, 2], "y": [batch_size, seed]})
results.show("fig1", frame, lambda f: alt.Chart(f).mark_line().encode(x="x", y="y"))
"""
KEPT = "from workbench.results import Results\nimport polars as pl\n"
KEPT += 'Results("x", output).keep("early", pl.DataFrame({"x": [1]}))'
# Tells its process id, then waits until it is let go.
SLOW = """\
import os, time
from pathlib import Path
Path(os.environ["PID_FILE"] + ".part").write_text(str(os.getpid()))
Path(os.environ["PID_FILE"] + ".part").rename(os.environ["PID_FILE"])
while not Path(os.environ["GO_FILE"]).exists():
    time.sleep(0.05)
"""


def write_notebook(path: Path, *cells: str, parameters: str = PARAMETERS) -> Path:
    """Write a notebook: a parameters cell, then `cells`; those that begin with # are headings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    v4 = nbformat.v4
    first = v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    others = [
        v4.new_markdown_cell(cell) if cell.startswith("# ") else v4.new_code_cell(cell)
        for cell in cells
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = v4.new_notebook(cells=[first, *others], metadata={"kernelspec": kernel})
    path.write_text(nbformat.writes(notebook))
    return path


def run(root: Path, *names: str, **options: Any) -> tuple[Report, str]:
    """Run the notebooks of `root` with results in `root`/out; return the report and all lines."""
    text = io.StringIO()
    options.setdefault("console", Console(file=text, width=200))
    options.setdefault("output", root / "out")
    report = reproduce(names, notebooks=root / "notebooks", **options)
    return report, text.getvalue()


def statuses(report: Report) -> dict[str, str]:
    return {outcome.notebook: outcome.status for outcome in report.outcomes}


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


REAL_PACKAGE = workbench.__file__


@pytest.fixture(autouse=True, scope="module")
def steady_package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let fingerprints see another package, so that tests pass while this one is being edited."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "module.py").write_text("x = 1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workbench, "__file__", str(folder / "__init__.py"))
        yield


# --- One run of several notebooks ----------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report, str]:
    """Two notebooks that end well and two that do not, beside a wrong kernel named `python3`."""
    root = tmp_path_factory.mktemp("a {curly} place")
    kernels = root / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    wrong = {"argv": ["/bin/false"], "display_name": "Wrong", "language": "python"}
    (kernels / "kernel.json").write_text(json.dumps(wrong))
    notebooks = root / "notebooks"
    write_notebook(notebooks / "01_good.ipynb", "# A figure", FIGURE, "print(scale, seed)")
    write_notebook(
        notebooks / "02_bad.ipynb", "# Where it breaks", KEPT, "no = {}\nno['such key']", "1"
    )
    write_notebook(notebooks / "03_dies.ipynb", "import os; os._exit(9)")
    write_notebook(
        notebooks / "04_plain.ipynb",
        "import os, sys\nprint(sys.executable)\nprint(os.getcwd())",
        parameters="repeats: int = 2",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(root / "jupyter"))
        patch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
        report, text = run(
            root, jobs=2, given={"seed": "7", "repeats": "3"}, figures=root / "figures"
        )
    return root, report, text


Finished = tuple[Path, Report, str]


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


def test_manifest_tells_how_results_came_about(finished: Finished) -> None:
    root, _, _ = finished
    manifest = results.manifest(root / "out", "good")
    assert manifest is not None
    assert manifest.parameters == {
        "scale": "default",
        "seed": 7,
        "batch_size": 32,
        "bandwidth_mbps": 1000.0,
    }
    assert manifest.altered(root / "out" / "01_good") == []
    assert set(manifest.outputs) >= {"01_good.ipynb", "fig1.parquet", "figures/fig1.svg"}
    assert {"python", "workbench", "polars", "altair", "torch"} <= set(manifest.versions)
    assert manifest.versions["python"] == sys.version.split()[0]
    assert 0 < manifest.wall_s < 60


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
    assert printed == [sys.executable, str(root / "notebooks")]


def test_failure_is_told_as_the_notebooks_own(finished: Finished) -> None:
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


def test_dead_kernel_is_told(finished: Finished) -> None:
    root, report, _ = finished
    (dead,) = [outcome for outcome in report.outcomes if outcome.notebook == "03_dies"]
    assert "kernel died" in dead.message
    assert "encryption" not in dead.message  # no chatter of the kernel's own
    assert (root / "out" / "03_dies.failed.ipynb").is_file()


def test_no_leftovers(finished: Finished) -> None:
    root, _, _ = finished
    assert hidden(root / "out") == [".lock"]
    assert kernels_below(os.getpid()) == []


def test_plain_lines_tell_start_and_end(finished: Finished) -> None:
    _, _, text = finished
    lines = text.splitlines()
    assert "01_good: started, 3 cells (no results yet)" in lines
    assert any(line.startswith("01_good: ran after ") for line in lines)
    assert any(line.startswith("02_bad: failed after ") for line in lines)
    assert "1 figure in " in text


def test_unchanged_notebooks_stand(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    root, _, _ = finished
    monkeypatch.setattr(driver._Run, "_execute", None)  # running anything would fail
    before = (root / "out" / "01_good" / "manifest.json").stat().st_mtime_ns
    report, text = run(root, "01", "plain", given={"seed": "7", "repeats": "3"})
    assert statuses(report) == {"01_good": "unchanged", "04_plain": "unchanged"}
    assert report.exit_status == 0
    assert (root / "out" / "01_good" / "manifest.json").stat().st_mtime_ns == before
    assert "01_good: unchanged" in text


# --- What makes a notebook run again -------------------------------------------------------------


def why(root: Path, **options: Any) -> str:
    """Return why notebook 04 would run again; empty if it would not."""
    chosen = find(root / "notebooks", ["04"])
    values = resolve(chosen, None, {"repeats": "3"} | options.pop("given", {}))
    made = driver._Run(chosen, values, root, root / "out", options.pop("force", False))
    return made.progress["04_plain"].reason


@pytest.fixture
def stored(finished: Finished, tmp_path: Path) -> Path:
    """A copy of what notebook 04 made, to be spoilt."""
    root, _, _ = finished
    for name in ("notebooks/04_plain.ipynb", "out/04_plain"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", str(root / name), str(target)], check=True)
    assert why(tmp_path) == ""
    return tmp_path


def test_opening_and_saving_a_notebook_changes_nothing(stored: Path) -> None:
    path = stored / "notebooks" / "04_plain.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"][1]["execution_count"] = 12
    notebook["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.99"}
    path.write_text(json.dumps(notebook))
    assert why(stored) == ""


def change_cell(root: Path) -> None:
    path = root / "notebooks" / "04_plain.ipynb"
    path.write_text(path.read_text().replace("print(os.getcwd())", "pass"))


def change_claims(root: Path) -> None:
    (root / "data").mkdir()
    (root / "data" / "claims.csv").write_text("id\n")


def change_testbed(root: Path) -> None:
    (root / "data" / "testbeds" / "deep").mkdir(parents=True)
    (root / "data" / "testbeds" / "deep" / "x.toml").write_text("a = 1")


def change_lock(root: Path) -> None:
    (root / "requirements.lock").write_text("torch==2.13.0")


def spoil_output(root: Path) -> None:
    (root / "out" / "04_plain" / "04_plain.ipynb").write_text("{}")


def lose_output(root: Path) -> None:
    (root / "out" / "04_plain" / "04_plain.ipynb").unlink()


def lose_manifest(root: Path) -> None:
    (root / "out" / "04_plain" / "manifest.json").unlink()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (change_cell, "changed: notebook"),
        (change_claims, "changed: data"),
        (change_testbed, "changed: data"),
        (change_lock, "changed: lock"),
        (spoil_output, "altered or missing: 04_plain.ipynb"),
        (lose_output, "altered or missing: 04_plain.ipynb"),
        (lose_manifest, "no results yet"),
    ],
)
def test_a_change_makes_it_run_again(
    stored: Path, change: Callable[[Path], None], reason: str
) -> None:
    change(stored)
    assert why(stored) == reason


def test_other_parameters_and_force_make_it_run_again(stored: Path) -> None:
    assert why(stored, given={"repeats": "4"}) == "changed: parameters"
    assert why(stored, force=True) == "forced"


def test_package_source_and_data_files_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = read_notebook(write_notebook(tmp_path / "notebooks" / "01_x.ipynb"))
    (tmp_path / "package" / "inner").mkdir(parents=True)
    source = tmp_path / "package" / "inner" / "module.py"
    source.write_text("x = 1")
    data = tmp_path / "mine.npz"
    data.write_bytes(b"1")
    monkeypatch.setattr(workbench, "__file__", str(tmp_path / "package" / "__init__.py"))

    def inputs(**versions: str) -> dict[str, str]:
        return fingerprint(notebook, {"dataset": str(data)}, tmp_path, versions)

    def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
        return [group for group in before if before[group] != after[group]]

    first = inputs()
    source.write_text("x = 2")
    assert changed(first, inputs()) == ["package"]
    source.write_text("x = 1")
    data.write_bytes(b"2")
    assert changed(first, inputs()) == ["parameters"]
    data.write_bytes(b"1")
    assert changed(first, inputs(torch="9")) == ["versions"]
    assert inputs(pytest="9") == first


def test_revision_tells_whether_inputs_differ_from_it(tmp_path: Path) -> None:
    assert driver._revision(tmp_path) == (None, None)

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "a.svg").write_text("old")
    (tmp_path / "input").write_text("old")
    git("add", ".")
    git("commit", "-m", "first")
    revision = git("rev-parse", "HEAD")
    (tmp_path / "figures" / "a.svg").write_text("new")  # an output: `make reproduce` writes it
    assert driver._revision(tmp_path) == (revision, False)
    (tmp_path / "input").write_text("new")
    assert driver._revision(tmp_path) == (revision, True)


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


# --- Interrupts and other runs -------------------------------------------------------------------


def kernels_below(pid: int) -> list[int]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [
            child.pid
            for child in psutil.Process(pid).children(recursive=True)
            if "ipykernel_launcher" in " ".join(child.cmdline())
        ]
    return []


def gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.05)


@contextlib.contextmanager
def stuck(root: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start `workbench reproduce` on a quick and a slow notebook; yield it when the latter hangs.

    Gives the process and its slow kernel's process id; lets the kernel go at the end.
    """
    notebooks = root / "notebooks"
    write_notebook(notebooks / "01_quick.ipynb", KEPT)
    write_notebook(notebooks / "02_slow.ipynb", KEPT, "# The long part", SLOW)
    environment = os.environ | {
        "PID_FILE": str(root / "pid"),
        "GO_FILE": str(root / "go"),
        "COLUMNS": "200",
    }
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "workbench.cli", "reproduce"),
            *("--notebooks", str(notebooks), "--output", str(root / "out")),
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for(lambda: (root / "pid").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()[0]
        yield process, int((root / "pid").read_text())
    finally:
        (root / "go").touch()
        process.kill()
        process.communicate()


def go_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run the same notebooks again with nothing to wait for."""
    (root / "go").touch()
    monkeypatch.setattr(workbench, "__file__", REAL_PACKAGE)  # as the first process saw it
    monkeypatch.setenv("PID_FILE", str(root / "pid"))
    monkeypatch.setenv("GO_FILE", str(root / "go"))
    return statuses(run(root)[0])


def test_goes_on_after_kill_9_and_refuses_company(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with stuck(tmp_path) as (process, kernel):
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_interrupt_ends_kernels_and_says_how_to_go_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    with stuck(tmp_path) as (process, kernel):
        process.send_signal(number)
        text, _ = process.communicate(timeout=20)
        assert process.returncode == 130
        assert gone(kernel)
    assert "Traceback" not in text
    assert (
        "Interrupted. Finished notebooks are kept; the same command goes on with 02_slow." in text
    )
    assert hidden(out) == [".lock"]
    assert sorted(path.name for path in out.glob("[!.]*")) == ["01_quick"]


def test_death_between_two_renames_loses_nothing(stored: Path) -> None:
    out = stored / "out"
    (out / "04_plain").rename(out / ".04_plain.old")
    (out / ".04_plain.partial-dead").mkdir()
    driver._clean(out)
    assert why(stored) == ""
    (out / ".04_plain.old").mkdir()
    driver._clean(out)
    assert why(stored) == ""
    assert hidden(out) == []


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


def test_signs_of_life_where_there_is_no_terminal(tmp_path: Path) -> None:
    wait = "# Long figure", "import time; time.sleep(1)"
    write_notebook(tmp_path / "notebooks" / "01_x.ipynb", *wait)
    _, text = run(tmp_path, heartbeat_s=0.3)
    assert "01_x: cell 2 of 2, Long figure, " in text


# --- Refused before anything runs ----------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two notebooks of which only one has a bandwidth; none may start."""
    write_notebook(tmp_path / "notebooks" / "01_dynacomm.ipynb")
    write_notebook(
        tmp_path / "notebooks" / "02_hiertrain.ipynb", parameters="workers: int = 4\nmine = True"
    )
    monkeypatch.setattr(driver, "_Run", None)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["dynacom"], {}, "unknown notebook 'dynacom'. Did you mean '.*dynacomm'"),
        (["03"], {}, "unknown notebook '03'.* Known: 01_dynacomm, 02_hiertrain"),
        ([], {"given": {"batchsize": "16"}}, "(?s)Did you mean 'batch_size'.*from 1 to 65536"),
        ([], {"given": {"output": "x"}}, "--output DIR"),
        ([], {"given": {"batch_size": "zero"}}, "batch_size=zero: must be a whole number"),
        ([], {"given": {"bandwidth_mbps": "nan"}}, "bandwidth_mbps=nan"),
        ([], {"given": {"mine": "2"}}, "mine=2: must be true or false"),
        ([], {"scale": "papr"}, "Did you mean 'paper'"),
        ([], {"scale": "paper", "given": {"scale": "smoke"}}, "given twice"),
        (["01"], {"given": {"workers": "2"}}, "none of the chosen notebooks .01_dynacomm."),
        ([], {"jobs": 0}, "--jobs 0: must be at least 1"),
    ],
)
def test_refused(two: Path, names: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(two, *names, **options)
    assert not (two / "out").exists()


def test_a_parameter_goes_to_those_that_have_it(two: Path) -> None:
    chosen = find(two / "notebooks")
    values = resolve(chosen, "paper", {"workers": "8", "bandwidth_mbps": "10"})
    assert values == {
        "01_dynacomm": {
            "scale": "paper",
            "seed": 0,
            "batch_size": 32,
            "bandwidth_mbps": 10.0,
        },
        "02_hiertrain": {"workers": 8, "mine": True},
    }


@pytest.mark.parametrize("name", ["01", "dynacomm", "01_dynacomm", "notebooks/01_dynacomm.ipynb"])
def test_notebooks_answer_to_short_names(two: Path, name: str) -> None:
    assert [one.name for one in find(two / "notebooks", [name, "01"])] == ["01_dynacomm"]


def test_ambiguous_short_name(two: Path) -> None:
    write_notebook(two / "notebooks" / "01_other.ipynb")
    with pytest.raises(ValueError, match="may be any of 01_dynacomm, 01_other"):
        find(two / "notebooks", ["01"])


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"cells": [1]}', '{"cells": [{}]}'])
def test_what_is_no_notebook(tmp_path: Path, content: str) -> None:
    (tmp_path / "01_x.ipynb").write_text(content)
    with pytest.raises(ValueError, match=r"01_x\.ipynb is not a Jupyter notebook"):
        find(tmp_path)


def test_no_notebooks(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--notebooks DIR"):
        reproduce(notebooks=tmp_path)


@pytest.mark.parametrize(
    ("cell", "message"),
    [("a: int = 1 +", "not Python"), ("a = f(1)", "plain value"), ("a = [1]", "bool, int, float")],
)
def test_parameters_cell_that_cannot_be_read(tmp_path: Path, cell: str, message: str) -> None:
    write_notebook(tmp_path / "01_x.ipynb", parameters=cell)
    with pytest.raises(ValueError, match=message):
        find(tmp_path)


def test_output_that_cannot_be_written(two: Path) -> None:
    (two / "file").touch()
    with pytest.raises(ValueError, match="cannot write to"):
        run(two, output=two / "file" / "out")

"""A user's own function at every point: no schema, failures as rows, kept in a folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import polars as pl
import pytest
from nbclient import NotebookClient

from tests.refusals import refusals
from tests.test_parallel import session, wait_for
from workbench.experiments import ExperimentInterrupted, grid, sweep
from workbench.runtime.progress import Steps
from workbench.utils.checks import UserError
from workbench.utils.files import ROOT

GRID = grid(bandwidth_mbps=[10, 100], seed=range(3))
LOCK = threading.Lock()


def trained(bandwidth_mbps: float, seed: int, counted: str = "") -> dict[str, Any]:
    """Fails for seed 2; adds a line to a file of the point, if there is a folder."""
    if counted:
        with (Path(counted) / f"{bandwidth_mbps:g} {seed}").open("a") as done:
            done.write(".")
    if seed == 2:
        raise KeyError("two")
    return {"top1": np.float32(seed / 4), "seconds": 100 / bandwidth_mbps, "parts": np.arange(seed)}


def rows_of(seed: int, steps: Steps) -> list[dict[str, int]]:
    steps.within("half")
    return [{"seed": seed + 1, "at": at} for at in range(seed)]


def steps_of(steps: int) -> pl.DataFrame:
    return pl.DataFrame({"n": [steps]})


def refused(seed: int) -> dict[str, int]:
    raise UserError(f"seed {seed}: give another")


def number(seed: int) -> int:
    return seed


def locking(seed: int, lock: Any) -> dict[str, int]:
    return {"x": seed}


def ended(seed: int) -> dict[str, int]:
    os._exit(3)


def unlike(seed: int) -> dict[str, Any]:
    return {"x": seed if seed else [seed]}


def dated(seed: int) -> dict[str, Any]:
    return {"x": pathlike(seed)}


def pathlike(seed: int) -> Path:
    return Path(str(seed))


def stopped(seed: int) -> dict[str, int]:
    if seed == 2:
        raise KeyboardInterrupt
    return {"x": seed}


class Adding:
    def __init__(self, number: int) -> None:
        self.number = number

    def to(self, seed: int) -> dict[str, int]:
        return {"x": seed + self.number}


def adding(number: int) -> Callable[[int], dict[str, int]]:
    def to(seed: int) -> dict[str, int]:
        return {"x": seed + number}

    return to


def runs(folder: Path) -> dict[str, int]:
    return {path.name: len(path.read_text()) for path in folder.iterdir()}


@pytest.mark.parametrize("processes", [1, 2])
def test_a_column_for_each_parameter_and_result_and_a_row_for_each_failure(processes: int) -> None:
    found = sweep(trained, GRID, processes=processes)
    assert dict(found.schema) == {
        "bandwidth_mbps": pl.Int64,
        "seed": pl.Int64,
        "top1": pl.Float64,
        "seconds": pl.Float64,
        "parts": pl.List(pl.Int64),
        "reason": pl.String,
    }
    assert found.rows() == [
        (mbps, seed, seed / 4, 100 / mbps, list(range(seed)), None)
        if seed < 2
        else (mbps, seed, None, None, None, "KeyError: 'two'")
        for mbps in (10, 100)
        for seed in range(3)
    ]


def test_rows_may_be_several_or_a_frame_and_their_columns_hide_no_parameter() -> None:
    found = sweep(rows_of, grid(seed=[2, 1, 0]), with_steps=True)
    assert found.columns == ["swept_seed", "seed", "at", "reason"]
    assert found.drop("reason").rows() == [(2, 3, 0), (2, 3, 1), (1, 2, 0)]
    assert sweep(steps_of, grid(steps=[5, 6])).rows() == [(5, 5, None), (6, 6, None)]
    assert sweep(steps_of, []).schema == {"reason": pl.String}


def test_what_the_workbench_refuses_reads_as_it_says() -> None:
    assert sweep(refused, grid(seed=[1]))["reason"].to_list() == ["seed 1: give another"]


def test_failures_that_are_not_expected_end_a_sweep_that_names_them() -> None:
    with pytest.raises(KeyError):
        sweep(trained, GRID, failures=ValueError)
    assert sweep(trained, GRID, failures=KeyError)["reason"].drop_nulls().to_list() == ["'two'"] * 2


test_refused = refusals(
    partial(sweep, trained),
    {"points": GRID},
    {
        "points": {
            "missing a required argument: 'bandwidth_mbps'": [grid(seed=[1])],
            "unexpected keyword argument 'x'": [grid(seed=[1], bandwidth_mbps=[1], x=[1])],
            "give points as grid": [{"seed": 1}, [1], "ab"],
        },
        "processes": {"whole number of at least 1": [0, -1, 1.5, "2", True]},
        "shared": {"unexpected keyword argument 'x'": [{"x": 1}]},
    },
)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("Title", {}, "'Title' is not a function; as in sweep"),
        (number, {}, "number returned 1; return a row as a dict"),
        (
            locking,
            {"processes": 2, "shared": {"lock": LOCK}},
            "cannot be sent between processes: .*pickle.*lock",
        ),
        (ended, {"processes": 2}, "a process died: out of memory, or"),
        (unlike, {}, "values of no common type"),
        (dated, {"folder": "kept"}, r"a row holds PosixPath\('1'\), which cannot be kept"),
        (lambda seed: {"x": seed}, {"folder": "kept"}, "needs a name; use def"),
        (partial(number), {"folder": "kept"}, "cannot be told from others of its kind"),
        (Adding(2).to, {"folder": "kept"}, "Adding.to cannot be told from others of its kind"),
        (adding(2), {"folder": "kept"}, "to cannot be told from others of its kind"),
        (
            number,
            {"address": "127.0.0.1:1"},
            "is not installed|no Ray cluster|uses another Ray",
        ),
    ],
)
def test_refused_in_words(
    function: Any,
    options: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        sweep(function, grid(seed=[1, 0, 2]), **options)


def test_arguments_that_text_does_not_tell_apart_are_not_kept(tmp_path: Path) -> None:
    for value in (np.arange(3), {"a": object()}, object(), [object()]):
        with pytest.raises(UserError, match=r"kept points are found by their arguments"):
            sweep(trained, [{"bandwidth_mbps": 1, "seed": value}], folder=tmp_path)
    assert sweep(steps_of, grid(steps=[(1, 2), [3]]), folder=tmp_path)["n"].to_list() == [
        [1, 2],
        [3],
    ]


@pytest.mark.parametrize("wrong", [5, "lenet5", b"ab", None])
def test_a_single_value_is_no_axis(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"give its values, as in model=\["):
        grid(model=wrong)


def test_a_folder_keeps_finished_points_and_no_failures(tmp_path: Path) -> None:
    counted, kept = tmp_path / "counted", tmp_path / "kept"
    counted.mkdir()
    shared = {"counted": str(counted)}
    first = sweep(trained, GRID[:4], shared=shared, folder=kept)
    assert first.equals(sweep(trained, GRID[:4], shared=shared, folder=str(kept), processes=2))
    assert runs(counted) == {"10 0": 1, "10 1": 1, "10 2": 2, "100 0": 1}
    whole = sweep(trained, GRID, shared=shared, folder=kept)
    assert runs(counted) == {"10 0": 1, "10 1": 1, "10 2": 3, "100 0": 1, "100 1": 1, "100 2": 1}
    assert whole.equals(sweep(trained, GRID, shared=shared))


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    with pytest.raises(ExperimentInterrupted, match="2 finished rows") as error:
        sweep(stopped, grid(seed=[0, 1, 2, 3]), folder=tmp_path)
    assert error.value.frame.rows() == [(0, 0, None), (1, 1, None)]
    assert sweep(stopped, grid(seed=[0, 1, 3]), folder=tmp_path)["x"].to_list() == [0, 1, 3]


SCRIPT = """\
import os, time
from pathlib import Path
from workbench.experiments import grid, sweep

LIMIT = 5

def helped(seed):
    return seed * LIMIT

def measured(seed, folder):
    with (Path(folder) / str(seed)).open("a") as done:
        done.write(".")
    while seed == 3 and not (Path(folder) / "go").exists():
        time.sleep(0.02)
    return {"x": helped(seed)}

if __name__ == "__main__":
    found = sweep(
        measured, grid(seed=range(5)), shared={"folder": "counted"}, folder="kept", processes=COUNT
    )
    print(found["x"].to_list())
"""


class Script:
    """A script of a user's in a folder of its own, run again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.counted = folder, folder / "counted"
        self.counted.mkdir()
        self.text = SCRIPT.replace("COUNT", "1")

    def write(self, old: str = "", new: str = "") -> None:
        self.text = self.text.replace(old, new) if old else self.text
        (self.folder / "mine.py").write_text(self.text)

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "mine.py"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self) -> str:
        self.write()
        process = self.start()
        printed, said = process.communicate()
        assert process.returncode == 0, said
        return printed + said

    def runs(self) -> list[int]:
        found = [self.counted / str(seed) for seed in range(5)]
        return [len(path.read_text()) if path.exists() else 0 for path in found]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


@contextmanager
def stuck(script: Script) -> Iterator[subprocess.Popen[str]]:
    """A script whose fourth point waits."""
    script.write()
    process = script.start()
    try:
        wait_for(lambda: (script.counted / "3").exists() or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.communicate()
        (script.counted / "go").touch()


@pytest.mark.parametrize("processes", [1, 2])
def test_after_kill_9_only_what_was_under_way_is_lost(script: Script, processes: int) -> None:
    script.write("processes=1", f"processes={processes}")
    with stuck(script) as process:
        if processes == 2:
            wait_for(lambda: script.runs() == [1, 1, 1, 1, 1])
            wait_for(lambda: len(list((script.folder / "kept").glob("*.json"))) == 4)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_for(lambda: not session(process.pid))  # not even those who compute are left
    assert script.run() == "[0, 5, 10, 15, 20]\n"
    assert script.runs() == [1, 1, 1, 2, 1]


def test_points_of_another_source_of_the_function_are_made_again(script: Script) -> None:
    (script.counted / "go").touch()
    assert script.run() == "[0, 5, 10, 15, 20]\n"
    script.write("def measured", "# another comment\n\ndef measured")
    script.run()
    assert script.runs() == [1] * 5
    script.write("helped(seed)}", "helped(seed) + 1}")
    assert script.run() == "[1, 6, 11, 16, 21]\n"
    assert script.runs() == [2] * 5
    script.write("helped(seed) + 1}", "helped(seed)}")
    assert script.run() == "[0, 5, 10, 15, 20]\n"
    assert script.runs() == [2] * 5


CELLS = [
    "import os\nfrom workbench.experiments import grid, sweep\nBASE = 10",
    "class Twice:\n    def of(self, x):\n        return BASE + 2 * x",
    "def mine(x):\n    return {'y': Twice().of(x), 'process': os.getpid()}",
    "a = sweep(mine, grid(x=[1, 2, 3]), processes=2)\n"
    "b = sweep(mine, grid(x=[1, 2, 3]), processes=2, folder='kept')\n"
    "c = sweep(mine, grid(x=[1, 2, 3]), processes=1, folder='kept')\n"
    "print([a['y'].to_list(), os.getpid() in a['process'].to_list(), b.equals(c)])",
    "def mine(x):\n    return {'y': 3 * x}",
    "print(sweep(mine, grid(x=[1, 2, 3]), folder='kept')['y'].to_list())",
]


def test_functions_and_classes_of_cells_work_in_other_processes_and_folders(tmp_path: Path) -> None:
    v4: Any = nbformat.v4
    book = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in CELLS])
    done = NotebookClient(book, resources={"metadata": {"path": str(tmp_path)}}).execute()
    texts = [
        "".join(out.get("text", "") for out in cell["outputs"] if out.get("name") == "stdout")
        for cell in done["cells"]
    ]
    assert texts[3] == "[[12, 14, 16], False, True]\n"
    assert texts[5] == "[3, 6, 9]\n"
    assert len(json.dumps(texts)) < 1000


def test_kept_points_are_of_one_function(tmp_path: Path) -> None:
    functions: list[Callable[..., object]] = [stopped, trained]
    assert sweep(stopped, grid(seed=[1]), folder=tmp_path)["x"].to_list() == [1]
    assert "top1" in sweep(trained, GRID[:1], folder=tmp_path).columns
    assert len(list(tmp_path.glob("*.json"))) == len(functions)

"""A sweep keeps every finished point, goes on after any end, and hides no failure."""

from __future__ import annotations

import io
import json
import math
import signal
import subprocess
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from tests.reproduce.helpers import PARAMETERS, gone, kernels_below, stuck, write_notebook
from workbench.reproduce.driver import plan
from workbench.reproduce.elsewhere import run_here
from workbench.reproduce.notebooks import read_notebook
from workbench.reproduce.points import Swept, write
from workbench.reproduce.sweep import sweep

# Each run adds a line to a file; seed 3 fails, and seed 4 waits until it is let go.
CELL = """\
import os, time
from pathlib import Path
import polars as pl
from workbench.notebook import Results
here = Path(os.environ["SWEEP_HERE"])
with (here / f"{seed} {bandwidth_mbps:g} {note}").open("a") as done:
    done.write("." + os.environ["OMP_NUM_THREADS"])
if seed == 3:
    raise ValueError("three is refused")
while seed == 4 and not (here / "go").exists():
    time.sleep(0.05)
results = Results("x", output)
results.keep("rows", pl.DataFrame({"x": [seed, 0], "lists": [[1], [2, 3]]}))
results.keep("points", pl.DataFrame({"seed": [seed + 10], "mbps": [bandwidth_mbps]}))
"""


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "runs").mkdir()
    monkeypatch.setenv("SWEEP_HERE", str(tmp_path / "runs"))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    return write_notebook(
        tmp_path / "notebooks" / "01_x.ipynb",
        "# The work",
        CELL,
        parameters=f'{PARAMETERS}note: str = ""',
    )


def swept(notebook: Path, **options: Any) -> tuple[Swept, str]:
    """Sweep into the folder beside the notebooks; return also all lines."""
    text = io.StringIO()
    given = options.pop("given")
    options.setdefault("output", notebook.parents[1] / "out")
    found = sweep(str(notebook), given, console=Console(file=text, width=200), **options)
    return found, text.getvalue()


def runs(notebook: Path) -> dict[str, int]:
    """How often each point was run."""
    places = (notebook.parents[1] / "runs").iterdir()
    return {path.name.strip(): path.read_text().count(".") for path in places}


def test_frames_of_all_points_have_a_column_for_each_parameter(notebook: Path) -> None:
    given = {"bandwidth_mbps": "10,100", "seed": "1..3"}
    found, text = swept(notebook, given=given, processes=2)
    assert found.exit_status == 1
    table = found.points
    assert table.columns == ["bandwidth_mbps", "seed", "status", "seconds", "reason", "folder"]
    assert table.select("bandwidth_mbps", "seed", "status").rows() == [
        (mbps, seed, "failed" if seed == 3 else "finished")
        for mbps in (10.0, 100.0)
        for seed in (1, 2, 3)
    ]
    (reason,) = set(table["reason"].drop_nulls())
    assert reason == "cell 2 of 2 (The work): ValueError: three is refused"
    assert text.count(reason) == 2
    assert all(seconds > 0 for seconds in table["seconds"])
    out = notebook.parents[1] / "out"
    for folder, status in table.select("folder", "status").iter_rows():
        made = "01_x/manifest.json" if status == "finished" else "01_x.failed.ipynb"
        assert (out / folder / made).is_file()
    assert found.frames["rows"].rows() == [
        (mbps, seed, x, lists)
        for mbps in (10.0, 100.0)
        for seed in (1, 2)
        for x, lists in ((seed, [1]), (0, [2, 3]))
    ]
    # A column of the frame's own keeps its name; the table of points has another file.
    assert found.frames["points"].columns == ["bandwidth_mbps", "swept_seed", "seed", "mbps"]
    assert "swept_seed: the parameter, since the frame has a column seed of its own" in text
    for path, frame in [("points", table), *((f"frames/{n}", f) for n, f in found.frames.items())]:
        assert pl.read_parquet(out / f"{path}.parquet").equals(frame)
        assert pl.read_csv(out / f"{path}.csv").columns == frame.columns
    assert json.loads(pl.read_csv(out / "frames" / "rows.csv")["lists"][1]) == [2, 3]
    assert {path.name for path in out.iterdir()} == {
        *("points", "frames", ".lock", "points.parquet", "points.csv")
    }


def strict(text: str) -> Any:
    """Read JSON in which NaN and infinities are no numbers."""
    return json.loads(text, parse_constant=pytest.fail)


def test_csv_has_durations_in_seconds_and_bytes_in_hexadecimal(tmp_path: Path) -> None:
    took = timedelta(days=1, microseconds=1500)
    frame = pl.DataFrame(
        {
            "took": [took, None],
            "in_ms": pl.Series([took, None], dtype=pl.Duration("ms")),
            "sha": [b"\x00\xff", None],
            "nested": [{"took": [took], "sha": b"a"}, None],
            "array": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int8, 2)),
            "text": ["a,b", None],
            "rates": [[[1.5, math.nan], [math.inf, None]], None],
            "days": [[date(2026, 1, 2)], None],
            "within": [{"a": {"b": [-math.inf, 0.0]}}, None],
        }
    )
    write(tmp_path, pl.DataFrame({"seed": [1]}), {"rows": frame})
    read = pl.read_csv(tmp_path / "frames" / "rows.csv").row(0, named=True)
    assert strict(read.pop("rates")) == [[1.5, None], [None, None]]
    assert strict(read.pop("days")) == ["2026-01-02"]
    assert strict(read.pop("within")) == {"a": {"b": [None, 0.0]}}
    assert json.loads(read.pop("nested")) == {"took": [86400.0015], "sha": "61"}
    assert read == {
        **{"took": 86400.0015, "in_ms": 86400.001, "sha": "00ff"},
        **{"array": "[1, 2]", "text": "a,b"},
    }
    assert pl.read_csv(tmp_path / "frames" / "rows.csv").row(1) == (None,) * 9
    assert pl.read_parquet(tmp_path / "frames" / "rows.parquet").equals(frame)


def test_points_beside_others_compute_on_one_core_each(notebook: Path) -> None:
    swept(notebook, given={"seed": "1,2"}, processes=2)
    swept(notebook, given={"seed": "5"}, processes=2)
    texts = {path.name: path.read_text() for path in (notebook.parents[1] / "runs").iterdir()}
    assert texts == {"1 1000 ": ".1", "2 1000 ": ".1", "5 1000 ": ".7"}


def test_only_what_is_not_finished_runs_again(notebook: Path) -> None:
    swept(notebook, given={"seed": "1,3"}, processes=1)
    found, text = swept(notebook, given={"seed": "1..3"}, processes=1)
    assert runs(notebook) == {"1 1000": 1, "2 1000": 1, "3 1000": 2}
    assert "2 of 3 points of 01_x to run" in text
    assert found.points["status"].to_list() == ["finished", "finished", "failed"]
    # Points of other values of the other parameters stay, and a smaller grid has only its own rows.
    swept(notebook, given={"seed": "1", "note": '"a,b",c'})
    found, _ = swept(notebook, given={"seed": "1"})
    assert runs(notebook) == {
        **{"1 1000": 1, "2 1000": 1, "3 1000": 2},
        **{"1 1000 a,b": 1, "1 1000 c": 1},
    }
    assert found.frames["rows"]["x"].to_list() == [1, 0]
    swept(notebook, given={"seed": "1"}, force=True)
    assert runs(notebook)["1 1000"] == 2


def test_a_point_whose_replacement_was_cut_off_is_restored(notebook: Path) -> None:
    found, _ = swept(notebook, given={"seed": "1"})
    place = notebook.parents[1] / "out" / found.points["folder"][0]
    (place / "01_x").rename(place / ".01_x.old")
    (place / ".01_x.partial-abc").mkdir()
    found, _ = swept(notebook, given={"seed": "1"})
    assert found.exit_status == 0
    assert runs(notebook) == {"1 1000": 1}
    assert [path.name for path in place.iterdir()] == ["01_x"]


def waiting(notebook: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    """A sweep in another process whose second point waits; the third has not begun."""
    asked = ("-p", "seed=1,4,2", "--processes", "1", "--output", str(notebook.parents[1] / "out"))
    go = notebook.parents[1] / "runs" / "go"
    return stuck(lambda: "4 1000" in runs(notebook), go, "sweep", str(notebook), *asked)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_is_finished(notebook: Path, number: signal.Signals) -> None:
    out = notebook.parents[1] / "out"
    with waiting(notebook) as process:
        (kernel,) = kernels_below(process.pid)
        process.send_signal(number)
        text, _ = process.communicate(timeout=30)
        assert process.returncode == 130
        assert gone(kernel)
    assert "Traceback" not in text
    assert "the same command goes on with the others" in text
    table = pl.read_parquet(out / "points.parquet")
    assert table["status"].to_list() == ["finished", "stopped", "stopped"]
    assert pl.read_parquet(out / "frames" / "rows.parquet")["seed"].to_list() == [1, 1]
    assert len(list((out / "points").iterdir())) == 1
    assert swept(notebook, given={"seed": "1,4,2"}, processes=1)[0].exit_status == 0


def test_a_notebook_that_keeps_no_frame_says_so(tmp_path: Path) -> None:
    path = write_notebook(
        tmp_path / "01_x.ipynb", "1", parameters="seed: int = 1\noutput: str = ''"
    )
    found, text = swept(path, given={"seed": "1,2"}, output=tmp_path / "out")
    assert found.exit_status == 0
    assert found.frames == {}
    assert "no point has kept a frame: Results(NAME, output).keep keeps one" in text


def test_frames_that_differ_too_much_are_left_out_with_the_reason(tmp_path: Path) -> None:
    cell = (
        'import polars as pl\nfrom workbench.notebook import Results\nk = Results("x", output).keep'
    )
    cell += '\nk("a", pl.DataFrame({"x": [1 if seed == 1 else [2]]}))'
    cell += '\nk("b", pl.DataFrame({"x": [1] if seed == 1 else [2.5]}))'
    path = write_notebook(
        tmp_path / "01_x.ipynb", cell, parameters="seed: int = 1\noutput: str = ''"
    )
    found, text = swept(path, given={"seed": "1,2"}, output=tmp_path / "out")
    assert found.frames["b"].rows() == [(1, 1.0), (2, 2.5)]
    assert list(found.frames) == ["b"]
    assert "left out: a: its columns differ from point to point" in text


def test_a_machine_that_differs_computes_no_point(notebook: Path) -> None:
    read, out = read_notebook(notebook), notebook.parents[1] / "out"
    (task,) = plan([(read, dict(read.defaults), out)], notebook.parents[1], force=False)
    versions = {**task.versions, "torch": "other", "workbench": "other"}
    other = run_here(replace(task, versions=versions), False, {})
    assert other.status == "failed"
    assert other.message.endswith("differs from the machine that asked: workbench, torch")
    assert runs(notebook) == {}
    away = run_here(replace(task, output=Path("nowhere")), False, {})
    assert away.status == "ran"
    assert {"01_x/manifest.json", "01_x/rows.parquet"} <= set(away.files)
    assert not out.exists()
    assert runs(notebook) == {"0 1000": 1}

"""A sweep keeps every finished point, goes on after any end, and hides no failure."""

from __future__ import annotations

import contextlib
import io
import itertools
import signal
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import usually
from tests.reproduction.helpers import PARAMETERS, gone, kernels_below, stuck, write_notebook
from workbench.reproduction import notebook_sweep as module
from workbench.reproduction.notebook_files import Notebook, read_notebook
from workbench.reproduction.notebook_sweep import MOST_POINTS, NotebookSweep, grid, sweep
from workbench.utils.checks import UserError

# Each run adds a line to a file; seed 3 fails, and seed 4 waits until it is let go.
CELL = """\
import os, time
from pathlib import Path
import polars as pl
from workbench.reproduction.notebook import Results
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


def swept(notebook: Path, **options: Any) -> tuple[NotebookSweep, str]:
    """Sweep into the folder beside the notebooks; return also all lines."""
    values = options.pop("given")
    options.setdefault("output", notebook.parents[1] / "out")
    with contextlib.redirect_stdout(io.StringIO()) as text:
        return sweep(str(notebook), values, **options), text.getvalue()


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
    assert pl.read_csv(out / "points.csv").columns == table.columns
    assert {path.name for path in out.iterdir()} == {
        *("points", "frames", ".lock", "points.parquet", "points.csv")
    }


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


def waiting(notebook: Path) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """A sweep in another process whose second point waits; the third has not begun."""
    asked = ("-p", "seed=1,4,2", "--processes", "1", "--output", str(notebook.parents[1] / "out"))
    go = notebook.parents[1] / "runs" / "go"
    return stuck(lambda: "4 1000" in runs(notebook), go, "sweep", str(notebook), *asked)


@pytest.mark.parametrize("number", usually([signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]))
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
    cell = "import polars as pl\nfrom workbench.reproduction.notebook import Results\n"
    cell += 'k = Results("x", output).keep'
    cell += '\nk("a", pl.DataFrame({"x": [1 if seed == 1 else [2]]}))'
    cell += '\nk("b", pl.DataFrame({"x": [1] if seed == 1 else [2.5]}))'
    path = write_notebook(
        tmp_path / "01_x.ipynb", cell, parameters="seed: int = 1\noutput: str = ''"
    )
    found, text = swept(path, given={"seed": "1,2"}, output=tmp_path / "out")
    assert found.frames["b"].rows() == [(1, 1.0), (2, 2.5)]
    assert list(found.frames) == ["b"]
    assert "left out: a: its columns differ from point to point" in text


DECLARED = f'{PARAMETERS}note: str = ""\nmine: bool = False\n'


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    return read_notebook(
        write_notebook(tmp_path_factory.mktemp("grid") / "01_x.ipynb", parameters=DECLARED)
    )


def values(declared: Notebook, name: str, text: str) -> list[Any]:
    return [point[name] for point, _ in grid(declared, None, {name: text})]


@pytest.mark.parametrize(
    ("name", "text", "meant"),
    [
        ("seed", "7", [7]),
        ("seed", "1..5", [1, 2, 3, 4, 5]),
        ("seed", "3..3", [3]),
        ("seed", " 1 .. 2 , 9,0..0", [1, 2, 9, 0]),
        ("bandwidth_mbps", "10,1e3,0.5", [10.0, 1000.0, 0.5]),
        ("bandwidth_mbps", "1..3", [1.0, 2.0, 3.0]),
        ("bandwidth_mbps", "10,100", [10.0, 100.0]),
        ("bandwidth_mbps", "1, 5", [1.0, 5.0]),
        ("bandwidth_mbps", "0.5,5", [0.5, 5.0]),
        ("seed", "1,5", [1, 5]),
        ("note", "1,05", ["1", "05"]),
        ("mine", "true,False", [True, False]),
        ("note", "", [""]),
        ("note", "a, b", ["a", "b"]),
        ("note", '"a,b",c', ["a,b", "c"]),
        ("note", '"say ""x"""', ['say "x"']),
        ("note", "1..3", ["1..3"]),
        ("scale", "smoke,paper", ["smoke", "paper"]),
    ],
)
def test_values_as_they_are_written(
    declared: Notebook, name: str, text: str, meant: list[Any]
) -> None:
    found = values(declared, name, text)
    assert found == meant
    assert list(map(type, found)) == list(map(type, meant))


@given(first=st.integers(0, 50), length=st.integers(1, 20), mbps=st.sets(st.integers(1, 99)))
@settings(deadline=None)
def test_every_combination_comes_once_the_last_changing_first(
    declared: Notebook, first: int, length: int, mbps: set[int]
) -> None:
    chosen = sorted(mbps) or [1]
    text = ", ".join(map(str, chosen))
    asked = {"bandwidth_mbps": text, "seed": f"{first}..{first + length - 1}"}
    found = grid(declared, "paper", asked)
    assert [tuple(point.values()) for point, _ in found] == list(
        itertools.product(map(float, chosen), range(first, first + length))
    )
    for point, everywhere in found:
        assert everywhere == {**declared.defaults, "scale": "paper", **point}


WRONG = [
    ({}, {}, "nothing varies"),
    ({"seed": ""}, {}, "seed=: must be a whole number from 0"),
    ({"seed": "1,,2"}, {}, "a value is missing beside a comma"),
    ({"seed": "5..1"}, {}, "give the smaller number first, 1..5"),
    ({"seed": "1...5"}, {}, "must be a whole number"),
    ({"seed": "-1..2"}, {}, "seed=-1: must be a whole number from 0"),
    ({"seed": "1,2,1"}, {}, "1 is given twice"),
    ({"seed": "1..4,3"}, {}, "3 is given twice"),
    ({"seed": "0..4294967296"}, {}, "4,294,967,297 values; a sweep has at most 10,000 points"),
    ({"seed": "1..200", "batch_size": "1..200"}, {}, "40,000 points; a sweep has at most 10,000"),
    ({"bandwidth_mbps": "10,1e1"}, {}, "10.0 is given twice"),
    ({"bandwidth_mbps": "1,5"}, {}, "one number or two.*with a point, as in 1.5"),
    ({"bandwidth_mbps": "16,25"}, {}, "one number or two"),
    ({"bandwidth_mbps": "0,05"}, {}, "one number or two"),
    ({"bandwidth_mbps": "1,000"}, {}, "thousands without a mark, as in 1500"),
    ({"seed": "1,000"}, {}, "thousands without a mark"),
    ({"bandwidth_mbps": "1..2.5"}, {}, "must be a number"),
    ({"bandwidth_mbps": "10;100"}, {}, "must be a number"),
    ({"note": '"a,b'}, {}, "a quotation mark is missing"),
    ({"sede": "1"}, {}, "(?s)Did you mean 'seed'.*batch_size"),
    ({"workers": "1,2"}, {}, "'workers' belongs to none of the chosen notebooks .01_x."),
    ({"output": "x"}, {}, "--output DIR"),
    ({"scale": "smoke,papr"}, {}, "Did you mean 'paper'"),
    ({"scale": "smoke"}, {"scale": "paper"}, "given twice: by --scale and by -p"),
    ({"seed": "1"}, {"scale": "papr"}, "Did you mean 'paper'"),
    ({"seed": "1"}, {"processes": 0}, "--processes 0: must be at least 1"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_refused_before_anything_runs(
    declared: Notebook,
    wrong: tuple[dict[str, str], dict[str, Any], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, options, message = wrong
    monkeypatch.setattr(module, "carry_out", None)
    with pytest.raises(UserError, match=message):
        sweep(str(declared.path), asked, output=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_notebook_that_can_keep_nothing_is_refused(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "01_x.ipynb", "1", parameters="seed: int = 1")
    with pytest.raises(UserError, match="keeps no results: declare output: str"):
        sweep(str(path), {"seed": "1"}, output=tmp_path / "out")
    for name in ("nowhere.ipynb", str(tmp_path), "", "dynacom"):
        with pytest.raises(UserError, match="unknown notebook"):
            sweep(name, {"seed": "1"}, output=tmp_path / "out")
    with pytest.raises(UserError, match="there is a file in its place"):
        sweep(str(write_notebook(path, "1")), {"seed": "1"}, output=path)


def test_as_many_points_as_are_allowed(declared: Notebook) -> None:
    assert len(grid(declared, None, {"seed": f"1..{MOST_POINTS}"})) == MOST_POINTS

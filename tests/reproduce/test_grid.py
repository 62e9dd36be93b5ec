"""What a user writes for a sweep means what it says, or is refused before anything runs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reproduce.helpers import PARAMETERS, write_notebook
from workbench.reproduce import sweep as module
from workbench.reproduce.grid import MOST_POINTS, points
from workbench.reproduce.notebooks import Notebook, read_notebook
from workbench.reproduce.sweep import sweep
from workbench.utils.checks import UserError

CELL = f'{PARAMETERS}note: str = ""\nmine: bool = False\n'


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    return read_notebook(
        write_notebook(tmp_path_factory.mktemp("grid") / "01_x.ipynb", parameters=CELL)
    )


def values(notebook: Notebook, name: str, text: str) -> list[Any]:
    return [point[name] for point, _ in points(notebook, None, {name: text})]


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
    notebook: Notebook, name: str, text: str, meant: list[Any]
) -> None:
    found = values(notebook, name, text)
    assert found == meant
    assert list(map(type, found)) == list(map(type, meant))


@given(first=st.integers(0, 50), length=st.integers(1, 20), mbps=st.sets(st.integers(1, 99)))
@settings(deadline=None)
def test_every_combination_comes_once_the_last_changing_first(
    notebook: Notebook, first: int, length: int, mbps: set[int]
) -> None:
    chosen = sorted(mbps) or [1]
    text = ", ".join(map(str, chosen))
    asked = {"bandwidth_mbps": text, "seed": f"{first}..{first + length - 1}"}
    found = points(notebook, "paper", asked)
    assert [tuple(point.values()) for point, _ in found] == list(
        itertools.product(map(float, chosen), range(first, first + length))
    )
    for point, everywhere in found:
        assert everywhere == {**notebook.defaults, "scale": "paper", **point}


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
    notebook: Notebook,
    wrong: tuple[dict[str, str], dict[str, Any], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, options, message = wrong
    monkeypatch.setattr(module, "carry_out", None)
    with pytest.raises(UserError, match=message):
        sweep(str(notebook.path), asked, output=tmp_path / "out", **options)
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


def test_as_many_points_as_are_allowed(notebook: Notebook) -> None:
    assert len(points(notebook, None, {"seed": f"1..{MOST_POINTS}"})) == MOST_POINTS

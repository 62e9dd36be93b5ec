"""Notebooks are found by their names and read with their parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reproduce.helpers import write_notebook
from workbench.reproduce import find, reproduce


@pytest.mark.parametrize("name", ["01", "dynacomm", "01_dynacomm", "notebooks/01_dynacomm.ipynb"])
def test_notebooks_answer_to_short_names(two: Path, name: str) -> None:
    assert [one.name for one in find(two / "notebooks", [name, "01"])] == ["01_dynacomm"]


def test_ambiguous_short_name(two: Path) -> None:
    write_notebook(two / "notebooks" / "01_other.ipynb")
    with pytest.raises(ValueError, match="may be any of 01_dynacomm, 01_other"):
        find(two / "notebooks", ["01"])


NO_NOTEBOOKS = [
    *("", "{}", "[]", '{"cells": [1]}', '{"cells": [{}]}'),
    '{"cells": [], "metadata": {}, "nbformat": 3, "nbformat_minor": 0}',
    '{"cells": [], "metadata": {}, "nbformat": 4}',
    '{"cells": [], "nbformat": 4, "nbformat_minor": 5}',
    '{"cells": [{"cell_type": "code", "source": ""}], "metadata": {}, "nbformat": 4, '
    '"nbformat_minor": 5}',
]


@pytest.mark.parametrize("content", NO_NOTEBOOKS)
def test_anything_but_a_notebook_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "01_x.ipynb").write_text(content)
    with pytest.raises(ValueError, match=r"01_x\.ipynb is not a Jupyter notebook"):
        find(tmp_path)


def test_no_notebooks(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--notebooks DIR"):
        reproduce(notebooks=tmp_path)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("a: int = 1 +", "not Python"),
        ("a = f(1)", "plain value"),
        ("a = {[]: 1}", "plain value"),
        ("a = [1]", "bool, int, float"),
    ],
)
def test_parameters_cell_that_cannot_be_read(tmp_path: Path, cell: str, message: str) -> None:
    write_notebook(tmp_path / "01_x.ipynb", parameters=cell)
    with pytest.raises(ValueError, match=message):
        find(tmp_path)


def test_a_file_that_jupyter_is_writing_is_ignored(tmp_path: Path) -> None:
    write_notebook(tmp_path / "01_x.ipynb")
    (tmp_path / ".~01_x.ipynb").touch()
    assert [one.name for one in find(tmp_path)] == ["01_x"]


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "01_x.ipynb").mkdir()
    with pytest.raises(ValueError, match=r"cannot read .*01_x\.ipynb: Is a directory"):
        find(tmp_path)


def test_nearest_name_may_be_a_short_one(tmp_path: Path) -> None:
    write_notebook(tmp_path / "00_start_here.ipynb")
    with pytest.raises(ValueError, match="Did you mean 'start_here'"):
        find(tmp_path, ["start_her"])

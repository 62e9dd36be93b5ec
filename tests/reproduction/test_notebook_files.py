"""Notebooks are found and read; what the user gave them is refused early, or reaches them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.reproduction.helpers import run, write_notebook
from workbench.reproduction.notebook_files import find, resolve
from workbench.reproduction.reproduce import reproduce
from workbench.utils.checks import UserError


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
        ("a = 1" + "+1" * 5000, "plain value|not Python"),
        ("a: int = 1.5", "'a' is annotated as int, but its default is 1.5"),
        ("a: bool = 1", "'a' is annotated as bool, but its default is 1"),
    ],
)
def test_parameters_cell_that_cannot_be_read(tmp_path: Path, cell: str, message: str) -> None:
    write_notebook(tmp_path / "01_x.ipynb", parameters=cell)
    with pytest.raises(ValueError, match=message):
        find(tmp_path)


def test_default_with_an_equals_sign_is_a_parameter(tmp_path: Path) -> None:
    """Papermill's own inspection leaves it out."""
    write_notebook(tmp_path / "01_x.ipynb", parameters='note: str = "a=b"')
    (book,) = find(tmp_path)
    assert book.defaults == {"note": "a=b"}


@pytest.mark.parametrize("cell", ["lr: float = 1", "lr: float = 1.0", "lr: float = -0"])
def test_whole_default_of_a_float_takes_fractions(tmp_path: Path, cell: str) -> None:
    write_notebook(tmp_path / "01_x.ipynb", parameters=cell)
    (book,) = find(tmp_path)
    assert type(book.defaults["lr"]) is float
    assert book.parameters["lr"].parse("0.1") == 0.1


def test_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "01_x.ipynb", parameters="seed: int = 3")
    path.write_text(path.read_text("utf-8"), encoding="utf-8-sig")
    (book,) = find(tmp_path)
    assert book.defaults == {"seed": 3}
    assert book.text[0] == "{"


@pytest.mark.parametrize("content", ["[" * 100_000, '{"cells": 1}', "1" * 5000, "\0"])
def test_file_of_another_kind_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "01_x.ipynb").write_text(content)
    with pytest.raises(UserError, match="is not a Jupyter notebook"):
        find(tmp_path)


def test_a_file_that_jupyter_is_writing_is_ignored(tmp_path: Path) -> None:
    write_notebook(tmp_path / "01_x.ipynb")
    (tmp_path / ".~01_x.ipynb").touch()
    assert [one.name for one in find(tmp_path)] == ["01_x"]


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "01_x.ipynb").mkdir()
    with pytest.raises(ValueError, match=r"01_x\.ipynb: cannot be read: Is a directory"):
        find(tmp_path)


def test_nearest_name_may_be_a_short_one(tmp_path: Path) -> None:
    write_notebook(tmp_path / "00_start_here.ipynb")
    with pytest.raises(ValueError, match="Did you mean 'start_here'"):
        find(tmp_path, ["start_her"])


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["dynacom"], {}, "unknown notebook 'dynacom'. Did you mean '.*dynacomm'"),
        (["03"], {}, "unknown notebook '03'.* Known: 01_dynacomm, 02_hiertrain"),
        ([], {"given": {"batchsize": "16"}}, "(?s)Did you mean 'batch_size'.*from 1 to 65536"),
        ([], {"given": {"output": "x"}}, "--output DIR"),
        ([], {"given": {"mine": "2"}}, "mine=2: must be true or false"),
        ([], {"scale": "papr"}, "Did you mean 'paper'"),
        ([], {"scale": "paper", "given": {"scale": "smoke"}}, "given twice"),
        ([], {"scale": ""}, "unknown scale ''. Known: smoke, default, paper"),
        (["02"], {"scale": "paper"}, "'scale' belongs to none of the chosen notebooks"),
        (["01"], {"given": {"workers": "2"}}, "none of the chosen notebooks .01_dynacomm."),
        ([], {"jobs": 0}, "--jobs 0: must be at least 1"),
    ],
)
def test_refused(two: Path, names: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(two, *names, **options)
    assert not (two / "out").exists()


def test_an_unknown_parameter_is_answered_with_those_of_the_chosen_notebooks(two: Path) -> None:
    with pytest.raises(ValueError, match="Did you mean 'batch_size'") as caught:
        run(two, given={"batchsize": "16"})
    assert "workers" in str(caught.value)
    assert "planner" not in str(caught.value)  # of the table, but of neither notebook


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


def test_a_planner_is_one_of_its_notebooks_system(two: Path) -> None:
    for name, planner in (("01_dynacomm", "dynacomm"), ("02_hiertrain", "hiertrain")):
        cell = f'scale: str = "smoke"\nplanner: str = "{planner}"\nbatch_size: int = 1'
        write_notebook(two / "notebooks" / f"{name}.ipynb", parameters=cell)
    both = find(two / "notebooks")
    assert resolve(both[1:], None, {"planner": "jalad"})["02_hiertrain"]["planner"] == "jalad"
    for chosen, planner in ((both[:1], "jalad"), (both[1:], "ibatch")):
        with pytest.raises(ValueError, match=f"^unknown planner '{planner}'"):
            resolve(chosen, None, {"planner": planner})
    with pytest.raises(ValueError, match=r"^02_hiertrain: unknown planner 'ibatch'.* all_edge"):
        resolve(both, None, {"planner": "ibatch"})
    with pytest.raises(ValueError, match=r"^batch_size=0: must be"):
        resolve(both, None, {"batch_size": "0"})


def test_a_parameter_of_another_system_is_known(two: Path) -> None:
    with pytest.raises(ValueError, match=r"'edge_cores' belongs to none of the chosen notebooks"):
        resolve(find(two / "notebooks", ["01"]), None, {"edge_cores": "2"})

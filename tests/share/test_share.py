"""The pages that the workbench offers: their values, and what is refused."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

import pytest

from tests.test_cli import refused
from workbench.share import share
from workbench.share.explorers import EXPLORERS, MOST_POINTS, described, grid
from workbench.utils.checks import UserError
from workbench.widgets import Slider, controls


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_page_has_valid_values_in_order_with_the_notebook_among_them(name: str) -> None:
    explorer = described(name)
    setting = explorer.setting()
    axes, made = grid(explorer, {}), controls(setting)
    assert list(axes) == list(made)
    assert 1000 < math.prod(map(len, axes.values())) <= MOST_POINTS
    assert {"batch_size", "bandwidth_mbps"} & {key for key, one in axes.items() if len(one) > 1}
    for key, values in axes.items():
        assert getattr(setting, key) in values
        for value in values:
            assert getattr(explorer.setting(**{key: value}), key) == value
        if isinstance(made[key], Slider):
            assert list(values) == sorted(set(values))


def test_values_that_are_given_take_the_place_of_its_own() -> None:
    axes = grid(described("01"), {"workers": "1..3", "planner": "ibatch"})
    assert (axes["workers"], axes["planner"]) == ([1, 2, 3], ["ibatch"])
    assert axes["model"] == described("dynacomm").shared.values["model"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("share -o x.html", "name one notebook, or take --all"),
        ("share dynacomm --all -o x", "name one notebook, or take --all"),
        ("share dynacomm", "say where the page goes"),
        ("share --all -o x -p workers=1,2", "-p is for one notebook's page"),
        ("share dynacomm -o nowhere/x.html", "there is no folder"),
        ("share 00_start_here -o x.html", "has no explorer to share; these have: dynacomm,"),
        ("share 07 -o x.html", "07 has no explorer to share"),
        ("share dynacom -o x.html", "dynacom has no explorer to share"),
        ("share dynacomm -o x.html -p worker=1,2", "Did you mean 'workers'?"),
        ("share dynacomm -o x.html -p seed=1,2", "unknown parameter 'seed'"),
        ("share dynacomm -o x.html -p workers=0,2", "must be a whole number from 1 to 1024"),
        ("share dynacomm -o x.html -p overhead_ms=1..9", "these are 30,240 settings; a page has"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_is_drawn(line: str, message: str) -> None:
    assert message in refused(*line.split())


def test_a_page_on_which_nothing_moves_is_refused() -> None:
    explorer = described("dynacomm")
    fixed = {name: str(getattr(explorer.setting(), name)) for name in explorer.shared.values}
    with pytest.raises(UserError, match=r"nothing can be moved: give model, .* several values"):
        grid(explorer, fixed)


def test_a_page_says_how_to_make_it_again_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.share.render", lambda _, __, made_by, *___: made_by)
    path = share("dynacomm", tmp_path / "my $(page).html", {"workers": "2,4"})
    assert shlex.split(path.read_text()) == [
        *("workbench", "share", "dynacomm", "-p", "workers=2,4", "-o", "my $(page).html")
    ]


def test_a_page_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.share.page.MOST_BYTES", 1000)
    given = {"model": "lenet5", "planner": "ibatch", "batch_size": "8"}
    with pytest.raises(
        UserError, match=r"the page would have \d+ kB, and 42 settings; at most 1 kB"
    ):
        share("dynacomm", tmp_path / "page.html", given, processes=1)
    assert list(tmp_path.iterdir()) == []

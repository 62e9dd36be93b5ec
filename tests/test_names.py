from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from workbench.utils.checks import UnknownNameError, check_name, choose

PLANNERS = {"dynacomm": 1, "sequential": 2}


def test_a_right_name_finds_its_entry() -> None:
    assert check_name("planner", "dynacomm", PLANNERS) == "dynacomm"
    assert choose("planner", "sequential", PLANNERS) == 2


@pytest.mark.parametrize(
    ("name", "hint"), [("dynacom", " Did you mean 'dynacomm'?"), ("DynaComm", "dynacomm"), ("", "")]
)
def test_a_wrong_name_is_refused_with_the_right_ones(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        choose("planner", name, PLANNERS)
    assert str(caught.value).startswith(f"unknown planner {name!r}.")
    assert str(caught.value).endswith("Known: dynacomm, sequential")
    assert hint in str(caught.value)


@pytest.mark.parametrize("name", [math, None, 3, len, ["dynacomm"], {}, np.zeros(3)])
def test_anything_but_text_is_refused_with_the_right_names(name: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"give a name. Known: dynacomm, sequential") as told:
        choose("planner", name, PLANNERS)
    assert str(told.value).startswith("planner is ")

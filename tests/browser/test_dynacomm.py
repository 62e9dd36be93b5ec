"""DynaComm's notebook in JupyterLab, offline: its explorer answers.

Notebooks run there as far as their explorers; `test_executed_copies` looks at the whole of them.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.browser.conftest import OpenLab
from tests.browser.harness import assert_nothing_strange

NAME = "01_dynacomm.ipynb"


def title(marks: list[str]) -> tuple[str, float, float]:
    """Return what the timeline's title says: the planner, the seconds, the percent saved."""
    pattern = r"ResNet-152, (.+): ([\d.]+) s, (-?[\d.]+) % saved"
    found = [match for match in (re.search(pattern, mark) for mark in marks) if match]
    assert len(found) == 1, f"{len(found)} titles"
    return found[0][1], float(found[0][2]), float(found[0][3])


def test_the_explorer_answers_in_the_notebook(open_lab: OpenLab, at_smoke_scale: Path) -> None:
    with open_lab(at_smoke_scale) as lab:
        lab.run_through("explore(")
        first = lab.settled()
        planner, first_s, saved_percent = title(first)
        assert (planner, saved_percent) == ("DynaComm", 36.7)  # where the notebook says
        lab.control("bandwidth").scroll_into_view_if_needed()
        lab.screenshot(at_smoke_scale.with_name("explorer.png"))

        lab.press("bandwidth", "ArrowLeft", times=10)
        lab.wait_for_other_marks(first)
        second = lab.settled()
        assert float(lab.setting("bandwidth").replace(",", "")) < 10_000
        planner, second_s, saved_percent = title(second)
        assert planner == "DynaComm"
        assert second_s > first_s  # a slower network
        assert "answered in" in lab.status()
        assert saved_percent > 0

        lab.choose("planner", "sequential")
        lab.wait_for_other_marks(second)
        planner, third_s, saved_percent = title(lab.settled())
        assert planner == "Sequential"
        assert saved_percent == 0
        assert third_s > second_s
        lab.screenshot(at_smoke_scale.with_name("slower.png"))
        assert_nothing_strange(lab)

"""HierTrain's notebook in JupyterLab, offline: its explorer answers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.browser.conftest import OpenLab
from tests.browser.harness import assert_nothing_strange

NAME = "02_hiertrain.ipynb"


def title(marks: list[str]) -> tuple[str, float]:
    """Return what the explorer's title says: the planner, the seconds."""
    pattern = r"ImageNet\), ([A-Za-z+-]+).*?([\d.]+) s an iteration"  # a title and its setting
    found = re.findall(pattern, " ".join(marks))
    assert len(found) == 1, f"{len(found)} titles in {marks}"
    return found[0][0], float(found[0][1])


def test_the_explorer_answers_in_the_notebook(open_lab: OpenLab, at_smoke_scale: Path) -> None:
    with open_lab(at_smoke_scale) as lab:
        lab.run_through("explore(")
        first = lab.settled()
        planner, first_s = title(first)
        assert planner == "HierTrain"  # where the notebook says
        lab.control("edge-cloud").scroll_into_view_if_needed()
        lab.screenshot(at_smoke_scale.with_name("explorer.png"))

        lab.press("edge-cloud", "ArrowLeft", times=10)
        lab.wait_for_other_marks(first)
        second = lab.settled()
        assert float(lab.setting("edge-cloud").replace(",", "")) < 3.5
        planner, second_s = title(second)
        assert planner == "HierTrain"
        assert second_s > first_s  # a slower way to the cloud
        assert "answered in" in lab.status()

        lab.choose("planner", "all_cloud")
        lab.wait_for_other_marks(second)
        third = lab.settled()
        planner, third_s = title(third)
        assert planner == "All-Cloud"
        assert third_s > second_s

        lab.press("devices at the edge", "ArrowRight", times=2)
        lab.wait_for_other_marks(third)
        planner, fourth_s = title(lab.settled())
        assert fourth_s > third_s  # they share the way to the cloud
        lab.screenshot(at_smoke_scale.with_name("shared.png"))
        assert_nothing_strange(lab)

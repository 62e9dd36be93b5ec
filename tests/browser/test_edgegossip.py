"""EdgeGossip's notebook in JupyterLab, offline: its explorer answers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.browser.conftest import OpenLab
from tests.browser.harness import assert_nothing_strange

NAME = "03_edgegossip.ipynb"


def title(marks: list[str]) -> tuple[float, float]:
    """Return the seconds of an epoch that the title gives: GoSGD's and EdgeGossip's."""
    plain, ours = (
        {match[1] for mark in marks for match in [re.search(pattern, mark)] if match}
        for pattern in (r"([\d.e+]+) s with GoSGD", r"([\d.e+]+) s with EdgeGossip")
    )
    assert len(plain) == len(ours) == 1, (plain, ours)
    return float(plain.pop()), float(ours.pop())


def test_the_explorer_answers_in_the_notebook(open_lab: OpenLab, at_smoke_scale: Path) -> None:
    with open_lab(at_smoke_scale) as lab:
        lab.run_through("explore(")
        first = lab.settled()
        plain_s, ours_s = title(first)
        assert ours_s < plain_s / 4
        lab.control("bandwidth").scroll_into_view_if_needed()
        lab.screenshot(at_smoke_scale.with_name("explorer.png"))

        lab.press("bandwidth", "ArrowLeft", times=20)
        lab.wait_for_other_marks(first)
        second = lab.settled()
        assert float(lab.setting("bandwidth").replace(",", "")) < 10_000
        slower_s, also_slower_s = title(second)
        assert slower_s > plain_s  # models take longer to exchange
        assert also_slower_s > ours_s
        assert "answered in" in lab.status()

        lab.choose("model", "lenet5")
        lab.wait_for_other_marks(second)
        small_s, balanced_s = title(lab.settled())
        assert small_s < plain_s
        assert balanced_s > small_s / 2  # little to gain
        lab.screenshot(at_smoke_scale.with_name("lenet5.png"))
        assert_nothing_strange(lab)

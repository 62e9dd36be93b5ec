"""DLion's notebook in JupyterLab, offline: its explorer answers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.browser.conftest import OpenLab
from tests.browser.harness import assert_nothing_strange

NAME = "04_dlion.ipynb"


def title(marks: list[str]) -> tuple[str, float, float]:
    """Return what the title says: the system, seconds an iteration, samples a second."""
    found: list[set[tuple[str, ...]]] = [
        {match.groups() for mark in marks for match in [re.search(pattern, mark)] if match}
        for pattern in (r"(\w+): ([\d.e+]+) s an iteration", r"(\d[\d,]*) samples a second \(")
    ]
    assert [len(one) for one in found] == [1, 1], found
    (system, seconds), (samples,) = found[0].pop(), found[1].pop()
    return system, float(seconds), float(samples.replace(",", ""))


def test_the_explorer_answers_in_the_notebook(open_lab: OpenLab, at_smoke_scale: Path) -> None:
    with open_lab(at_smoke_scale) as lab:
        lab.run_through("explore(")
        first = lab.settled()
        system, first_s, first_rate = title(first)
        assert system == "DLion"
        lab.control("batch size").scroll_into_view_if_needed()
        lab.screenshot(at_smoke_scale.with_name("explorer.png"))

        lab.press("batch size", "ArrowRight", times=2)
        lab.wait_for_other_marks(first)
        second = lab.settled()
        assert float(lab.setting("batch size").replace(",", "")) > 32
        system, second_s, second_rate = title(second)
        assert system == "DLion"
        assert second_s > first_s  # more to learn from in an iteration
        assert second_rate > first_rate  # for the same share of the host
        assert "answered in" in lab.status()

        lab.choose("system", "baseline")
        lab.wait_for_other_marks(second)
        system, third_s, _ = title(lab.settled())
        assert system == "Baseline"
        assert third_s > second_s  # whole gradients over slow links
        lab.screenshot(at_smoke_scale.with_name("baseline.png"))
        assert_nothing_strange(lab)

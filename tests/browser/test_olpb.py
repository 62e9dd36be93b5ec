"""OLPB's notebook in JupyterLab, offline: its explorer answers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.browser.conftest import OpenLab
from tests.browser.harness import assert_nothing_strange

NAME = "05_olpb.ipynb"


def block_mb(marks: list[str]) -> float:
    """Return what the title says the block of memory needs."""
    found = {
        match[1] for mark in marks for match in [re.search(r"block ([\d.,]+) MB", mark)] if match
    }
    assert len(found) == 1, found
    return float(found.pop().replace(",", ""))


def test_the_explorer_answers_in_the_notebook(open_lab: OpenLab, at_smoke_scale: Path) -> None:
    with open_lab(at_smoke_scale) as lab:
        lab.run_through("explore(")
        first = lab.settled()
        planned_mb = block_mb(first)
        lab.control("batch size").scroll_into_view_if_needed()
        lab.screenshot(at_smoke_scale.with_name("explorer.png"))

        lab.press("batch size", "ArrowRight", times=2)
        lab.wait_for_other_marks(first)
        second = lab.settled()
        larger_mb = block_mb(second)
        assert larger_mb > planned_mb  # more samples
        assert "answered in" in lab.status()

        lab.choose("planner", "none")
        lab.wait_for_other_marks(second)
        assert block_mb(lab.settled()) > larger_mb
        lab.screenshot(at_smoke_scale.with_name("none.png"))
        assert_nothing_strange(lab)

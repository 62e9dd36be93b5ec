"""Every notebook's explorer in JupyterLab, offline: it answers what its controls are moved to.

A slider or a menu changes the chart in place, to what a new one would show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.harness import Lab, assert_nothing_strange, notebook
from tests.test_notebooks import PAPERS, sources

# Of each: a number in its title, what raises that by how many stops, and the model of least work.
EXPLORERS = {
    "01_dynacomm": (
        r", .+: ([\d.]+) s, -?[\d.]+ % saved",
        ("bandwidth", "ArrowLeft", 10),
        "lenet5",
    ),
    "02_hiertrain": (r"([\d.]+) s an iteration", ("edge-cloud", "ArrowLeft", 2), "lenet5_cifar"),
    "03_edgegossip": (r"([\d.e+]+) s with EdgeGossip", ("bandwidth", "ArrowLeft", 10), "lenet5"),
    "04_dlion": (r": ([\d.e+]+) s an iteration", ("batch size", "ArrowRight", 10), "lenet5"),
    "05_olpb": (r"block ([\d.,]+) MB", ("batch size", "ArrowRight", 10), "lenet5"),
}


def as_far_as_the_explorer(path: Path) -> list[str]:
    """Return the notebook's first cells, and one that draws the same chart from the beginning."""
    cells = sources(path, "code")
    (last,) = [number for number, source in enumerate(cells) if "explore(" in source]
    return [*cells[: last + 1], "_.chart"]


@pytest.fixture(scope="module")
def opened(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The notebooks' first cells, one notebook's behind the other's, for one kernel."""
    cells = [source for path in PAPERS for source in as_far_as_the_explorer(path)]
    with lab.opened(notebook(tmp_path_factory.mktemp("explorers"), *cells)):
        yield lab


def plain(marks: list[str]) -> list[str]:
    """Marks without what depends on the drawings before: gradients' numbers, ticks' order."""
    return sorted(re.sub(r"#gradient_\d+", "#gradient", mark) for mark in marks)


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_explorer_shows_what_its_controls_ask_for(path: Path, opened: Lab) -> None:
    pattern, (slider, key, stops), smallest = EXPLORERS[path.stem]

    def answer(marks: list[str]) -> float:
        found = {match[1] for mark in marks if (match := re.search(pattern, mark))}
        assert len(found) == 1, marks
        return float(found.pop().replace(",", ""))

    lab, cells = opened, [as_far_as_the_explorer(one) for one in PAPERS]
    start = sum(map(len, cells[: PAPERS.index(path)]))
    *own, again = range(start, start + len(cells[PAPERS.index(path)]))
    lab.clear()
    for number in own:
        lab.run_cell(number)
    first = lab.settled()
    assert_nothing_strange(lab)
    lab.page.evaluate("document.querySelector('.vega-embed svg').id = 'drawn-at-first'")
    stood = lab.setting(slider)

    lab.press(slider, key, times=stops)
    lab.wait_for_other_marks(first)
    changed = lab.settled()
    assert lab.setting(slider) != stood
    assert "answered in" in lab.status()
    assert answer(changed) > answer(first)
    assert lab.page.locator("#drawn-at-first").count() == 1  # changed, not drawn again
    lab.run_cell(again)
    assert plain(lab.settled(1)) == plain(changed)

    model = lab.setting("model")
    lab.choose("model", smallest)
    lab.wait_for_other_marks(changed)
    other = lab.settled()
    assert answer(other) < answer(changed)
    lab.choose("model", model)  # whose drawing was kept
    lab.wait_for_other_marks(other)
    assert plain(lab.settled()) == plain(changed)
    assert lab.page.locator("#drawn-at-first").count() == 1
    assert lab.problems == []

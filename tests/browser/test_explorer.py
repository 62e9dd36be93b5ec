"""An explorer in JupyterLab, offline: it answers what its controls are moved to, and keeps up."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.harness import Lab, assert_nothing_strange, notebook
from tests.test_notebooks import sources
from workbench.utils.files import ROOT

EXPLORER = """
import time
import altair as alt
import polars as pl
from workbench.widgets import Menu, Slider, explorer

drawn = []

def draw(bandwidth, workers, planner):
    drawn.append(bandwidth)
    if workers > 6:
        raise ValueError("the testbed has 6 workers")
    time.sleep(0.1)
    frame = pl.DataFrame({"part": ["pull", "push"], "s": [8.0 / bandwidth, workers / bandwidth]})
    bars = alt.Chart(frame, title=planner, height=120).mark_bar()
    return bars.encode(x=alt.X("s:Q").scale(domain=[0, 10]), y="part:N")

explorer(draw, {
    "bandwidth": Slider(1, 1000, 10, unit="Mbps", scale="log"),
    "workers": Slider(1, 8, 5, integer=True),
    "planner": Menu(("dynacomm", "sequential")),
})
"""

TITLE = r", .+: ([\d.]+) s, -?[\d.]+ % saved"
COUNT = "import pathlib\npathlib.Path('count').write_text(' '.join(map(str, drawn)))"

# Samples every painted frame: in how many was the chart gone?
WATCH = """() => {
    window.frames_seen = {all: 0, empty: 0};
    const look = () => {
        window.frames_seen.all += 1;
        if (!document.querySelector('.vega-embed svg')) window.frames_seen.empty += 1;
        requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""


@pytest.fixture(scope="class")
def tiny(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab.opened(notebook(tmp_path_factory.mktemp("tiny"), EXPLORER, COUNT)):
        lab.run_cell(0)
        yield lab


def test_make_lab_asks_nothing_at_first_start(lab: Lab) -> None:
    lab.page.wait_for_timeout(1500)  # a question comes within one second
    assert lab.page.locator(".Toastify__toast").all_inner_texts() == []


class TestExplorer:
    def test_shows_an_error_and_keeps_the_last_chart(self, tiny: Lab) -> None:
        tiny.press("workers", "ArrowRight", times=3)
        assert "the testbed has 6 workers" in tiny.status("alert")
        assert tiny.setting("workers") == "8"
        kept = tiny.marks()
        tiny.press("workers", "ArrowLeft", times=4)
        tiny.wait_for_other_marks(kept)
        assert "answered in" in tiny.status()
        assert tiny.problems == []

    def test_keeps_up_and_never_goes_blank(self, tiny: Lab) -> None:
        before = tiny.settled()
        tiny.page.evaluate(WATCH)
        started_s = time.monotonic()
        tiny.press("bandwidth (Mbps)", "ArrowLeft", times=100)  # 0.1 s each, if all were drawn
        pressed_s = time.monotonic() - started_s
        tiny.wait_for_other_marks(before)
        tiny.page.wait_for_timeout(1000)
        settled = tiny.marks()
        frames = tiny.page.evaluate("window.frames_seen")
        tiny.page.wait_for_timeout(1000)
        assert tiny.marks() == settled
        assert float(tiny.setting("bandwidth")) == 1
        assert any("M" in mark for mark in settled)
        tiny.run_cell(1)
        drawn = [float(value) for value in (tiny.folder / "count").read_text().split()]
        assert drawn[-1] == 1
        assert len(drawn) * 0.1 < pressed_s + 2.5  # with those of the test before
        assert frames["empty"] == 0 < frames["all"]
        assert tiny.problems == []


def test_a_notebooks_explorer_changes_its_drawing_in_place(lab: Lab, tmp_path: Path) -> None:
    """It shows what a new drawing would, and keeps drawings that a menu comes back to."""
    path = ROOT / "notebooks" / "01_dynacomm.ipynb"
    *first_cells, explore = [
        source
        for number, source in enumerate(sources(path, "code"))
        if number < 2 or "explore(" in source
    ]
    last = len(first_cells)
    with lab.opened(notebook(tmp_path, *first_cells, explore, "_.chart")):
        for number in range(last + 1):
            lab.run_cell(number)
        first = lab.settled()
        assert_nothing_strange(lab)
        lab.page.evaluate("document.querySelector('.vega-embed svg').id = 'drawn-at-first'")
        lab.press("bandwidth", "ArrowLeft", times=10)
        lab.wait_for_other_marks(first)
        changed = lab.settled()
        assert iteration_s(changed) > iteration_s(first)
        lab.run_cell(last + 1)
        assert plain(lab.settled(1)) == plain(changed)

        model = lab.setting("model")
        lab.choose("model", "lenet5")
        lab.wait_for_other_marks(changed)
        other = lab.settled()
        assert iteration_s(other) < iteration_s(changed)
        lab.choose("model", model)
        lab.wait_for_other_marks(other)
        assert plain(lab.settled()) == plain(changed)
        assert lab.page.locator("#drawn-at-first").count() == 1
        assert lab.problems == []


def iteration_s(marks: list[str]) -> float:
    """The seconds in the explorer's title."""
    (seconds,) = {match[1] for mark in marks if (match := re.search(TITLE, mark))}
    return float(seconds)


def plain(marks: list[str]) -> list[str]:
    """Marks without what depends on the drawings before: gradients' numbers, ticks' order."""
    return sorted(re.sub(r"#gradient_\d+", "#gradient", mark) for mark in marks)

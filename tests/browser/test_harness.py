"""The harness itself, on a small explorer: answers, faults and what would leave the machine."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.harness import Lab, notebook

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


@pytest.fixture(scope="module")
def tiny(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab.opened(notebook(tmp_path_factory.mktemp("tiny"), EXPLORER, COUNT)):
        lab.run_cell(0)
        yield lab


def test_make_lab_asks_nothing_at_first_start(lab: Lab) -> None:
    lab.page.wait_for_timeout(1500)  # a question comes within one second
    assert lab.page.locator(".Toastify__toast").all_inner_texts() == []


def test_explorer_shows_an_error_and_keeps_the_last_chart(tiny: Lab) -> None:
    tiny.press("workers", "ArrowRight", times=3)
    assert "the testbed has 6 workers" in tiny.status("alert")
    assert tiny.setting("workers") == "8"
    kept = tiny.marks()
    tiny.press("workers", "ArrowLeft", times=4)
    tiny.wait_for_other_marks(kept)
    assert "answered in" in tiny.status()
    assert tiny.problems == []


def test_explorer_keeps_up_and_never_goes_blank(tiny: Lab) -> None:
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


def test_problems_of_a_page_are_collected(lab: Lab, tmp_path: Path) -> None:
    with lab.opened(notebook(tmp_path, "1", "import pathlibb")):
        with pytest.raises(AssertionError, match=r"cell 1 failed.*pathlibb"):
            lab.run_cell(1)
        assert lab.problems == []
        lab.page.evaluate(
            """async () => {
                await fetch('https://example.org/vega.js').catch(() => null);
                await fetch('/no/such/page');
                console.error('loud');
            }"""
        )
        lab.page.wait_for_timeout(200)
        problems = "\n".join(lab.problems)
        for expected in ("left this machine: https://example.org/vega.js", "status 404", "loud"):
            assert expected in problems

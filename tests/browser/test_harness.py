import json
import time
from pathlib import Path
from typing import cast

import altair as alt
import playwright.sync_api
import polars as pl
import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import OpenLab
from tests.browser.harness import NoChromiumError, find_chromium
from workbench import figures

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


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    def cell(source: str) -> dict[str, object]:
        code: dict[str, object] = {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
        }
        return {**code, "id": f"cell{len(source)}", "source": source}

    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    count = "import pathlib\npathlib.Path('count').write_text(' '.join(map(str, drawn)))"
    path = tmp_path / "tiny.ipynb"
    path.write_text(
        json.dumps(
            {
                "cells": [cell(EXPLORER), cell(count)],
                "metadata": {"kernelspec": kernel},
                "nbformat": 4,
                "nbformat_minor": 5,
            }
        )
    )
    return path


def test_an_explorer_answers_in_jupyterlab(open_lab: OpenLab, notebook: Path) -> None:
    with open_lab(notebook) as lab:
        lab.run_all()
        first = lab.marks()

        lab.press("bandwidth (Mbps)", "ArrowRight", times=5)
        lab.wait_for_other_marks(first)
        second = lab.settled()
        assert "answered in" in lab.status()
        assert float(lab.setting("bandwidth")) > 10

        lab.choose("planner", "sequential")
        lab.wait_for_other_marks(second)
        assert any("sequential" in mark for mark in lab.settled())

        lab.press("workers", "ArrowRight", times=3)
        assert "the testbed has 6 workers" in lab.status("alert")
        assert lab.setting("workers") == "8"
        kept = lab.marks()
        lab.screenshot(notebook.parent / "error.png")
        lab.press("workers", "ArrowLeft", times=4)
        lab.wait_for_other_marks(kept)
        lab.screenshot(notebook.parent / "explorer.png")
        assert lab.problems == []


def test_an_explorer_keeps_up_and_never_goes_blank(open_lab: OpenLab, notebook: Path) -> None:
    with open_lab(notebook) as lab:
        lab.run_all()
        before = lab.marks()
        lab.page.evaluate(WATCH)
        started_s = time.monotonic()
        lab.press("bandwidth (Mbps)", "ArrowLeft", times=100)  # 0.1 s each, if all were drawn
        pressed_s = time.monotonic() - started_s
        lab.wait_for_other_marks(before)
        lab.page.wait_for_timeout(1000)
        settled = lab.marks()
        frames = lab.page.evaluate("window.frames_seen")
        lab.page.wait_for_timeout(1000)
        assert lab.marks() == settled
        assert float(lab.setting("bandwidth")) == 1
        assert any("M" in mark for mark in settled)
        lab.run_cell(1)
        drawn = [float(value) for value in (lab.folder / "count").read_text().split()]
        assert drawn[-1] == 1
        assert len(drawn) * 0.1 < pressed_s + 1.5
        assert frames["empty"] == 0 < frames["all"]
        assert lab.problems == []


def test_what_goes_wrong_is_told(open_lab: OpenLab, notebook: Path) -> None:
    notebook.write_text(notebook.read_text().replace("import pathlib", "import pathlibb"))
    with open_lab(notebook) as lab:
        with pytest.raises(AssertionError, match=r"cell 1 failed.*pathlibb"):
            lab.run_all()
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


def test_a_figure_brings_its_font(browser: Browser, tmp_path: Path) -> None:
    frame = pl.DataFrame({"part": ["pull", "push"], "s": [1.0, 2.0]})
    chart = alt.Chart(frame, title="Forward, µs").mark_bar().encode(x="s:Q", y="part:N")
    path = figures.save(chart, tmp_path / "chart.svg")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.evaluate("document.fonts.ready")
    faces = page.evaluate(
        "[...document.fonts].map(face => [face.family, face.weight, face.status])"
    )
    assert [(weight, status) for _, weight, status in faces] == [
        ("bold", "loaded"),
        ("normal", "loaded"),
    ]
    # Drawn with it, too: without the fallbacks the text is as wide as with them.
    widths = """family => [...document.querySelectorAll('text')].map(text => {
        if (family) text.setAttribute('font-family', family);
        return text.getComputedTextLength();
    })"""
    with_fallbacks = page.evaluate(widths)
    alone = page.evaluate(widths, f"{faces[0][0]}, monospace")
    page.close()
    assert alone == with_fallbacks
    assert len(alone) > 5


def test_no_chromium_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Playwright:
        class chromium:  # noqa: N801  (Playwright's name)
            executable_path = str(tmp_path / "none")

    nobody = cast("playwright.sync_api.Playwright", Playwright)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("WORKBENCH_CHROMIUM", raising=False)
    with pytest.raises(NoChromiumError, match="playwright install chromium"):
        find_chromium(nobody)
    monkeypatch.setenv("WORKBENCH_CHROMIUM", "/no/chromium")
    with pytest.raises(NoChromiumError, match="WORKBENCH_CHROMIUM is '/no/chromium'"):
        find_chromium(nobody)
    own = tmp_path / "chromium"
    own.write_text("")
    own.chmod(0o755)
    monkeypatch.delenv("WORKBENCH_CHROMIUM")
    assert find_chromium(nobody) == str(own)

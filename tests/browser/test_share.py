"""A shared page in a browser without a network: from a file, equal to Python at every setting."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
import vl_convert
from playwright.sync_api import Browser, Page

from workbench import figures
from workbench.reproduction.parameters import Value
from workbench.share import EXPLORERS, share
from workbench.share.explorers import Described, described, grid
from workbench.share.page import MOST_BYTES
from workbench.share.payload import EXACT
from workbench.widgets import Menu, controls
from workbench.widgets.live_chart import parts

NAME = "olpb"
FEWER = {
    "phase": "training",
    "planner": "workbench,pebble",
    "batch_size": "1,10",
    "workers": "4,32",
    "levels": "2,4",
    "delay_factor": "20",
    "bandwidth_mbps": "10,100",
}
"""Values of a small page, on which every setting is tried."""
TRIED = 12


class Opened(NamedTuple):
    """A page in the browser, and what went wrong in it."""

    page: Page
    explorer: Described
    axes: Mapping[str, Sequence[Value]]
    problems: list[str]

    @property
    def moved(self) -> dict[str, Sequence[Value]]:
        return {name: values for name, values in self.axes.items() if len(values) > 1}

    def setting(self, positions: Sequence[int]) -> Any:
        values = {name: values[0] for name, values in self.axes.items()}
        for (name, several), at in zip(self.moved.items(), positions, strict=True):
            values[name] = several[at]
        return self.explorer.setting(**values)

    def specification(self, positions: Sequence[int]) -> Mapping[str, Any]:
        drawn: Mapping[str, Any] = self.explorer.draw(self.setting(positions))
        return drawn

    def every_setting(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*(range(len(values)) for values in self.moved.values())))


def opened(
    browser: Browser, name: str, path: Path, given: Mapping[str, str], **screen: Any
) -> Opened:
    context = browser.new_context(offline=True, **screen)
    page, problems = context.new_page(), list[str]()

    def note(url: str) -> None:
        if url != path.as_uri():
            problems.append(f"asked for {url}")

    page.on("request", lambda request: note(request.url))
    page.on("pageerror", lambda error: problems.append(f"uncaught: {error}"))
    page.on("console", lambda it: problems.append(it.text) if it.type == "error" else None)
    page.goto(path.as_uri())
    page.wait_for_function("globalThis.shared?.chart && document.querySelector('#chart svg')")
    explorer = described(name)
    return Opened(page, explorer, grid(explorer, given), problems)


@pytest.fixture(scope="module")
def small(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Opened]]:
    path = tmp_path_factory.mktemp("shared") / f"{NAME}.html"
    share(NAME, path, FEWER)
    made = opened(browser, NAME, path, FEWER)
    yield path, made
    made.page.context.close()


def assert_equal(ours: Any, theirs: Any) -> None:
    """Whether charts are equal, texts and short columns to the last digit."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        ours, theirs = list(ours.values()), list(theirs.values())
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_equal(one, other)
    elif isinstance(theirs, float) and ours != theirs:
        assert math.isclose(ours, theirs, rel_tol=EXACT)
    else:
        assert ours == theirs


def assert_as_python_draws(made: Opened, points: Sequence[Sequence[int]]) -> None:
    charts = made.page.evaluate("points => points.map(shared.chart)", list(map(list, points)))
    for chart, positions in zip(charts, points, strict=True):
        template, data, signals = parts(made.specification(positions))
        assert_equal(chart, {"template": template, "values": {"data": data, "signals": signals}})


def test_every_setting_has_the_chart_that_python_draws(small: tuple[Path, Opened]) -> None:
    _, made = small
    points = made.every_setting()
    assert len(points) == made.page.evaluate("shared.points.length")
    assert_as_python_draws(made, points)
    assert made.problems == []


MARKS = """() => [...document.querySelectorAll('#chart svg [aria-label]')].map(
    mark => [mark.getAttribute('aria-label'), mark.getAttribute('d') ?? ''])"""
GUIDES = {"axis", "legend", "title", "subtitle"}
TITLES = """() => [...document.querySelectorAll('#chart svg .role-title text')].map(
    title => title.textContent)"""
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
LENGTH = re.compile(r"-?\d*\.?\d+(?:e[+-]?\d+)?")
DRAWN_PX = 0.01


def marks(specification: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a drawing's marks say, and their shapes, drawn without the page."""
    root = ElementTree.fromstring(vl_convert.vegalite_to_svg(dict(specification)))
    return [
        (mark.attrib["aria-label"], mark.get("d", ""))
        for mark in root.iter()
        if "aria-label" in mark.attrib and mark.get("aria-roledescription") not in GUIDES
    ]


def titles(view: Mapping[str, Any]) -> Iterator[str]:
    """A specification's titles, without what parts their lines."""
    title = view.get("title", {})
    for text in (title.get("text"), title.get("subtitle")) if isinstance(title, dict) else (title,):
        if text:
            yield text if isinstance(text, str) else "".join(text)
    for kind in ("vconcat", "hconcat"):
        for child in view.get(kind, ()):
            yield from titles(child)


def assert_same_marks(ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> None:
    """Whether marks have the same texts and numbers, and the same shapes."""
    assert len(ours) == len(theirs)
    for (label, path), (other, other_path) in zip(ours, theirs, strict=True):
        assert NUMBER.sub("#", label) == NUMBER.sub("#", other)
        for numbers in zip(NUMBER.findall(label), NUMBER.findall(other), strict=True):
            shown, wanted = (float(text.replace(",", "")) for text in numbers)
            assert math.isclose(shown, wanted, rel_tol=EXACT)
        assert LENGTH.sub("#", path) == LENGTH.sub("#", other_path)
        for lengths in zip(LENGTH.findall(path), LENGTH.findall(other_path), strict=True):
            assert math.isclose(*map(float, lengths), abs_tol=DRAWN_PX)


def test_controls_moved_by_keys_show_the_numbers_that_python_computes(
    small: tuple[Path, Opened],
) -> None:
    _, made = small
    page = made.page
    described_by = controls(made.explorer.setting())
    for positions in random.Random(1).sample(made.every_setting(), TRIED):
        for (name, values), at in zip(made.moved.items(), positions, strict=True):
            label = described_by[name].label or name.replace("_", " ")
            control = page.get_by_label(label, exact=True)
            if isinstance(described_by[name], Menu):
                control.select_option(index=at)
                continue
            control.press("Home")
            for _ in range(at):
                control.press("ArrowRight")
            shown = page.locator(f"output[for={name}]").inner_text()
            assert shown == control.get_attribute("aria-valuetext")
            assert float(shown.replace(",", "").split()[0]) == values[at]
        page.wait_for_selector(f'#chart[data-shown="{",".join(map(str, positions))}"]')
        titled = figures.headed(made.specification(positions), figures.width_px())
        assert_same_marks(page.evaluate(MARKS), marks(titled))
        assert set(titles(titled)) <= set(page.evaluate(TITLES))
    assert made.problems == []


def test_a_page_tells_what_is_fixed_and_how_it_is_made(small: tuple[Path, Opened]) -> None:
    path, made = small
    made.page.locator("summary").click()
    told = made.page.locator("details").inner_text()
    given = " ".join(f"-p {key}={value}" for key, value in FEWER.items())
    assert f"workbench share {made.explorer.name} {given} -o {path.name}" in told
    assert f"each of the {len(made.every_setting()):,} settings" in told
    assert "revision" in told
    for name, values in made.axes.items():
        if len(values) == 1:
            number = f"{values[0]:g}" if isinstance(values[0], float) else str(values[0])
            assert number in told.replace(",", ""), name
    assert path.stat().st_size < MOST_BYTES


def test_a_narrow_dark_screen_shows_all_of_it(small: tuple[Path, Opened], browser: Browser) -> None:
    path, _ = small
    viewport = {"width": 390, "height": 800}
    narrow = opened(browser, NAME, path, FEWER, viewport=viewport, color_scheme="dark")
    narrow.page.wait_for_selector("#chart[data-shown]")
    assert narrow.page.evaluate("document.documentElement.scrollWidth") == 390
    svg = narrow.page.locator("#chart svg")
    shown_px = svg.evaluate("svg => svg.clientWidth")
    assert shown_px <= 390
    assert shown_px >= 0.75 * float(svg.get_attribute("width") or 0)  # its texts can be read
    assert narrow.problems == []
    narrow.page.context.close()


@pytest.mark.long
@pytest.mark.parametrize("name", EXPLORERS)
def test_the_page_of_a_notebook_equals_python_and_can_be_sent(
    name: str, browser: Browser, tmp_path: Path
) -> None:
    path = share(name, tmp_path / "page.html")
    assert path.stat().st_size <= MOST_BYTES
    made = opened(browser, name, path, {})
    points = made.every_setting()
    assert len(points) == made.page.evaluate("shared.points.length")
    assert_as_python_draws(made, random.Random(2).sample(points, 200))
    made.page.context.close()

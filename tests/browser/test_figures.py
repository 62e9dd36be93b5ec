"""Committed figures as a browser draws them: no words on words, none outside.

Boxes are those of the ink: from the first letter to the last along the line, as high as they are.
"""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser

from workbench.utils.files import ROOT

FIGURES = sorted((ROOT / "figures").glob("*.svg"))
TOUCHING_PX = 0.5

WORDS = """async (svg) => {
    document.body.innerHTML = svg;
    await Promise.all([...document.fonts].map(face => face.load()));
    const pen = document.createElement('canvas').getContext('2d');
    const shown = line => {
        const style = getComputedStyle(line);
        return line.textContent.trim() && line.getNumberOfChars()
            && style.visibility !== 'hidden' && +style.opacity && +style.fillOpacity;
    };
    const box = line => {
        const style = getComputedStyle(line), matrix = line.getScreenCTM();
        pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
        const ink = pen.measureText(line.textContent);
        const corner = (point, down) => {
            const at = new DOMPoint(point.x, point.y + down).matrixTransform(matrix);
            return [at.x, at.y];
        };
        const from = line.getStartPositionOfChar(0);
        const to = line.getEndPositionOfChar(line.getNumberOfChars() - 1);
        const above = -ink.actualBoundingBoxAscent, below = ink.actualBoundingBoxDescent;
        return [corner(from, above), corner(to, above), corner(to, below), corner(from, below)];
    };
    const lines = [...document.querySelectorAll('svg text')].flatMap(
        text => text.querySelector('tspan') ? [...text.querySelectorAll('tspan')] : [text]);
    const picture = document.querySelector('svg').getBoundingClientRect();
    return {
        words: lines.filter(shown).map(line => [line.textContent, box(line)]),
        picture: [[picture.left, picture.top], [picture.right, picture.bottom]],
    };
}"""


def apart(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether two rectangles, of four corners each, have a gap along a side of either."""
    for corners in (one, other):
        for side in (corners[1] - corners[0], corners[2] - corners[1]):
            ours, theirs = one @ side, other @ side
            slack = TOUCHING_PX * float(np.linalg.norm(side))
            if ours.max() <= theirs.min() + slack or theirs.max() <= ours.min() + slack:
                return True
    return False


def overlapping(drawn: dict[str, Any]) -> list[tuple[str, str]]:
    words = [(text, np.array(corners)) for text, corners in drawn["words"]]
    pairs = combinations(words, 2)
    return [(text, under) for (text, one), (under, other) in pairs if not apart(one, other)]


@pytest.fixture(scope="module")
def drawn(browser: Browser) -> dict[str, dict[str, Any]]:
    page = browser.new_page()
    found = {path.name: page.evaluate(WORDS, path.read_text(encoding="utf-8")) for path in FIGURES}
    page.close()
    return found


@pytest.mark.parametrize("name", [path.name for path in FIGURES])
def test_no_words_on_words(drawn: dict[str, dict[str, Any]], name: str) -> None:
    assert drawn[name]["words"]
    assert overlapping(drawn[name]) == []


@pytest.mark.parametrize("name", [path.name for path in FIGURES])
def test_no_words_outside(drawn: dict[str, dict[str, Any]], name: str) -> None:
    least, most = np.array(drawn[name]["picture"])
    outside = [
        text
        for text, corners in drawn[name]["words"]
        if (np.array(corners) < least - TOUCHING_PX).any()
        or (np.array(corners) > most + TOUCHING_PX).any()
    ]
    assert outside == []


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.name)
def test_no_line_joins_only_two_points(path: Path) -> None:
    groups = [
        group
        for group in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}g")
        if "mark-line" in group.get("class", "").split()
    ]
    lines = [path.get("d") or "" for group in groups for path in group]
    pieces = [piece for line in lines for piece in line.split("M") if piece]
    assert [piece for piece in pieces if len(re.findall("[A-Z]", piece)) == 1] == []


def test_overlap_is_seen(browser: Browser) -> None:
    page = browser.new_page()
    word = '<text font-size="10" transform="translate({x},20) rotate({turn})">a word</text>'

    def pairs(*places: tuple[float, float]) -> int:
        texts = "".join(word.format(x=x, turn=turn) for x, turn in places)
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="99" height="99">{texts}</svg>'
        return len(overlapping(page.evaluate(WORDS, svg)))

    assert pairs((0, 0), (50, 0)) == 0
    assert pairs((0, 0), (20, 0)) == 1
    assert pairs((0, 45), (20, 45)) == 0  # lines beside each other, whose upright boxes overlap
    assert pairs((0, 0), (0, 0), (5, -90)) == 3
    page.close()

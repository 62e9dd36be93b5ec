"""Titles fit the width of the picture, or of the view that they belong to."""

from __future__ import annotations

from itertools import pairwise

import pytest

from workbench import figures

SEEN = "Accuracy over virtual seconds"
SETTING = ["LeNet-5 on MNIST, eight platforms, two peers each", "mean and range of 3 seeds"]


def test_only_the_first_of_a_list_is_the_title() -> None:
    whole = figures.headed({"mark": "bar", "title": [SEEN, *SETTING]}, 687)
    assert whole["title"] == {
        "text": [SEEN],
        "subtitle": ["; ".join(SETTING)],
        "frame": "bounds",
    }
    assert figures.headed({"mark": "bar", "title": [SEEN]}, 687)["title"]["text"] == [SEEN]
    for other in (SEEN, {"text": SEEN}, None):
        assert figures.headed({"mark": "bar", "title": other}, 687)["title"] == other


def test_views_beside_each_other_share_the_width() -> None:
    view = {"mark": "bar", "title": [SEEN, *SETTING, *SETTING]}
    beside = figures.headed({"hconcat": [view, view]}, 400)["hconcat"][0]
    below = figures.headed({"vconcat": [view, view]}, 400)["vconcat"][0]
    assert "frame" not in beside["title"]  # each above its own plot
    assert len(beside["title"]["subtitle"]) > len(below["title"]["subtitle"])


@pytest.mark.parametrize("column", ["single", "double"])
def test_lines_of_a_title_are_full(column: str) -> None:
    words = " ".join(["wide", "narrow", "mm", "ill"] * 20)
    titled = figures.headed({"mark": "bar", "title": [SEEN, words]}, figures.width_px(column))
    lines = titled["title"]["subtitle"]
    assert " ".join(lines) == words
    assert all(len(a) + len(b.split()[0]) > 60 * len(column) / 6 for a, b in pairwise(lines))


def test_a_caption_joins_title_and_setting() -> None:
    assert figures.caption({"title": [SEEN, *SETTING]}) == "; ".join([SEEN, *SETTING]) + "."
    broken = figures.headed({"title": [SEEN, *SETTING]}, 200)
    assert figures.caption(broken) == figures.caption({"title": [SEEN, *SETTING]})


def test_caption_of_a_chart_without_title_is_that_of_its_views() -> None:
    one, two = {"title": ["A", "b", "(c)"]}, {"title": {"text": ["D", "e"], "subtitle": "f?"}}
    spec = {"hconcat": [one, {"layer": [two]}, {"title": ""}]}
    assert figures.caption(spec) == "A; b (c). D e; f?"

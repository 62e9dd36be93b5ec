"""What is seen stands in one line, the setting in grey below it, as wide as the figure."""

from __future__ import annotations

from itertools import pairwise

import altair as alt
import polars as pl
import pytest

from workbench import figures
from workbench.figures import headed

SEEN = "Accuracy over virtual seconds"
SETTING = ["LeNet-5 on MNIST, eight platforms, two peers each", "mean and range of 3 seeds"]


def test_only_the_first_of_a_list_is_the_title() -> None:
    found = headed({"mark": "bar", "title": [SEEN, *SETTING]}, 687)
    assert found["title"] == {
        "text": [SEEN],
        "subtitle": ["; ".join(SETTING)],
        "frame": "bounds",
    }
    assert headed({"mark": "bar", "title": [SEEN]}, 687)["title"]["text"] == [SEEN]
    for other in (SEEN, {"text": SEEN}, None):
        assert headed({"mark": "bar", "title": other}, 687)["title"] == other


def test_views_beside_each_other_share_the_width() -> None:
    one = {"mark": "bar", "title": [SEEN, *SETTING, *SETTING]}
    beside = headed({"hconcat": [one, one]}, 400)["hconcat"][0]
    below = headed({"vconcat": [one, one]}, 400)["vconcat"][0]
    assert "frame" not in beside["title"]  # each above its own plot
    assert len(beside["title"]["subtitle"]) > len(below["title"]["subtitle"])


@pytest.mark.parametrize("column", ["single", "double"])
def test_a_title_is_as_wide_as_its_column_and_no_wider(column: str) -> None:
    words = " ".join(["wide", "narrow", "mm", "ill"] * 20)
    frame = pl.DataFrame({"x": [1, 2], "y": ["a label of some length", "b"]})
    chart = alt.Chart(frame, title=[SEEN, words]).mark_bar().encode(x="x:Q", y="y:N")
    lines = headed(chart.to_dict(), figures.width_px(column))["title"]["subtitle"]
    assert " ".join(lines) == words
    assert all(len(a) + len(b.split()[0]) > 60 * len(column) / 6 for a, b in pairwise(lines))
    assert f'width="{figures.COLUMNS[column]}in"' in figures.svg(chart, column)

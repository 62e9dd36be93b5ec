"""A chart is as wide as its column, and so are its titles."""

import re
import struct
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest

from tests.figures.examples import charts
from workbench import figures
from workbench.figures.export import to_pdf, to_png, to_svg
from workbench.figures.fitting import fitted

SVG = "{http://www.w3.org/2000/svg}"
SEEN = "Accuracy over virtual seconds"
SETTING = ["LeNet-5 on MNIST, eight platforms, two peers each", "mean and range of 3 seeds"]


@pytest.mark.parametrize(("column", "inches"), [("single", 3.5), ("double", 7.16)])
@pytest.mark.parametrize("kind", charts())
def test_every_kind_of_chart_is_exactly_a_column_wide(
    kind: str, column: str, inches: float
) -> None:
    picture = fitted(charts()[kind], column)
    root = ElementTree.fromstring(to_svg(picture))
    assert root.get("width") == f"{inches:g}in"
    left, top, width, height = map(float, root.get("viewBox", "").split())
    assert width == pytest.approx(inches * 96)
    assert float(root.get("height", "").removesuffix("in")) == pytest.approx(height / 96, abs=1e-3)
    # What is centred in the window fills it but for a few pixels.
    assert -2.5 <= left <= 0 == top
    # Text is 8 pt or 7 pt at this size, not shrunk to fit.
    sizes = {text.get("font-size") for text in root.iter(f"{SVG}text")}
    assert sizes <= {"10.67px", "9.33px"}

    (box,) = re.findall(rb"/MediaBox \[([^\]]*)\]", to_pdf(picture))
    assert [float(side) for side in box.split()][:3] == pytest.approx([0, 0, inches * 72], abs=1e-3)

    png = to_png(picture)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">L", png[16:20]) == (round(inches * 300),)
    per_metre = struct.unpack(">LL", png[png.index(b"pHYs") + 4 :][:8])
    assert per_metre == pytest.approx((300 / 0.0254,) * 2, rel=1e-3)


def test_widths_keep_their_proportion_in_a_concatenation() -> None:
    root = ElementTree.fromstring(figures.svg(charts()["hconcat"]))
    plots = [
        float(line.get("x2", 0))
        for group in root.iter(f"{SVG}g")
        if "role-axis-domain" in group.get("class", "")
        for line in group
        if float(line.get("x2", 0)) > 0
    ]
    assert len(plots) == 2
    assert plots[0] == pytest.approx(2 * plots[1], rel=0.01)


def test_a_wide_legend_wraps_where_the_column_is_narrow() -> None:
    names = [f"a planner with a long name, {n}" for n in range(4)]
    data = pl.DataFrame({"name": names, "y": [1.0, 2.0, 3.0, 4.0]})
    chart = alt.Chart(data).mark_bar().encode(x="y:Q", color=alt.Color("name:N", title=None))
    rows = {}
    for column in figures.COLUMNS:
        root = ElementTree.fromstring(figures.svg(chart, column))
        labels = [
            text.get("transform", "")
            for group in root.iter(f"{SVG}g")
            if "role-legend-label" in group.get("class", "")
            for text in group
        ]
        entries = [
            re.findall(r"translate\([\d.]+,([\d.]+)\)", group.get("transform", ""))
            for scope in root.iter(f"{SVG}g")
            if "role-scope" in scope.get("class", "")
            for group in scope
        ]
        assert len(labels) == 4
        rows[column] = len({place for (place,) in entries})
    assert rows["double"] < rows["single"]


def test_what_cannot_fit_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    data = pl.DataFrame({"name": ["W" * 60], "y": [1.0]})
    axis = alt.Axis(labelLimit=0)
    chart = alt.Chart(data).mark_bar().encode(x="y:Q", y=alt.Y("name:N", axis=axis))
    path = tmp_path / "chart.svg"
    path.write_text("old")
    with pytest.raises(ValueError, match=r"needs at least \d\.\d\d in, more than the single col"):
        figures.save(chart, path, "single")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_only_the_first_of_a_list_is_the_title() -> None:
    found = figures.headed({"mark": "bar", "title": [SEEN, *SETTING]}, 687)
    assert found["title"] == {
        "text": [SEEN],
        "subtitle": ["; ".join(SETTING)],
        "frame": "bounds",
    }
    assert figures.headed({"mark": "bar", "title": [SEEN]}, 687)["title"]["text"] == [SEEN]
    for other in (SEEN, {"text": SEEN}, None):
        assert figures.headed({"mark": "bar", "title": other}, 687)["title"] == other


def test_views_beside_each_other_share_the_width() -> None:
    one = {"mark": "bar", "title": [SEEN, *SETTING, *SETTING]}
    beside = figures.headed({"hconcat": [one, one]}, 400)["hconcat"][0]
    below = figures.headed({"vconcat": [one, one]}, 400)["vconcat"][0]
    assert "frame" not in beside["title"]  # each above its own plot
    assert len(beside["title"]["subtitle"]) > len(below["title"]["subtitle"])


@pytest.mark.parametrize("column", ["single", "double"])
def test_a_title_is_as_wide_as_its_column_and_no_wider(column: str) -> None:
    words = " ".join(["wide", "narrow", "mm", "ill"] * 20)
    frame = pl.DataFrame({"x": [1, 2], "y": ["a label of some length", "b"]})
    chart = alt.Chart(frame, title=[SEEN, words]).mark_bar().encode(x="x:Q", y="y:N")
    lines = figures.headed(chart.to_dict(), figures.width_px(column))["title"]["subtitle"]
    assert " ".join(lines) == words
    assert all(len(a) + len(b.split()[0]) > 60 * len(column) / 6 for a, b in pairwise(lines))
    assert f'width="{figures.COLUMNS[column]}in"' in figures.svg(chart, column)


def texts(svg: str, role: str) -> list[list[tuple[float, str]]]:
    """Visible texts of each axis, with their places from left to right."""
    root = ElementTree.fromstring(svg)
    groups = [group for group in root.iter(f"{SVG}g") if role in group.get("class", "").split()]
    return [
        sorted(
            (float(re.findall(r"[-\d.]+", text.get("transform", ""))[0]), "".join(text.itertext()))
            for text in group.iter(f"{SVG}text")
            if text.get("opacity") != "0"
        )
        for group in groups
    ]


def test_ticks_that_would_run_together_are_left_out() -> None:
    nodes = [2**n for n in range(2, 13)]
    axis = alt.Axis(values=nodes, format="d")
    x = alt.X("nodes:Q", scale=alt.Scale(type="log", base=2), axis=axis)
    chart = alt.Chart(pl.DataFrame({"nodes": nodes})).mark_point().encode(x)
    labels = texts(figures.svg(chart | chart, "single"), "role-axis-label")
    assert len(labels) == 2
    for of_one in labels:
        assert 3 < len(of_one) < len(nodes)
        for (left, one), (right, other) in pairwise(of_one):
            assert right - left > 5.2 * (len(one) + len(other)) / 2 + 4  # px of a digit of 7 pt


def test_titles_of_axes_break_where_plots_stand_beside_each_other() -> None:
    title = "ours minus the paper's, percentage points"
    chart = alt.Chart(pl.DataFrame({"x": [1, 2]})).mark_point().encode(x=alt.X("x:Q", title=title))
    for shown, lines in ((chart, 1), (chart | chart, 2), ((chart + chart) | chart, 2)):
        root = ElementTree.fromstring(figures.svg(shown, "single"))
        found = [
            [line.text for line in text.iter(f"{SVG}tspan")] or [text.text]
            for group in root.iter(f"{SVG}g")
            if "role-axis-title" in group.get("class", "")
            for text in group.iter(f"{SVG}text")
        ]
        assert {" ".join(map(str, of_one)) for of_one in found} == {title}
        assert {len(of_one) for of_one in found} == {lines}
    assert chart.to_dict()["encoding"]["x"]["title"] == title

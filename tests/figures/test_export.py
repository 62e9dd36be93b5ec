"""A figure is a column wide, whatever its kind and format."""

from __future__ import annotations

import json
import re
import struct
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest

from tests.figures.examples import bars, charts
from workbench import figures
from workbench.utils.checks import UnknownNameError

SVG = "{http://www.w3.org/2000/svg}"


def groups(svg: str, role: str) -> list[ElementTree.Element]:
    """The groups of a picture that Vega gives this role."""
    found = ElementTree.fromstring(svg).iter(f"{SVG}g")
    return [group for group in found if role in group.get("class", "").split()]


@pytest.mark.parametrize("column", figures.COLUMNS)
@pytest.mark.parametrize("kind", charts())
def test_every_kind_of_chart_is_a_column_wide(kind: str, column: str) -> None:
    root = ElementTree.fromstring(figures.svg(charts()[kind], column))
    assert float(root.attrib["width"]) == pytest.approx(figures.width_px(column), abs=4)
    # Text is 8 pt or 7 pt at this size, not shrunk to fit.
    sizes = {text.get("font-size") for text in root.iter(f"{SVG}text")}
    assert sizes <= {"10.67px", "9.33px"}


def test_pdf_and_png_have_the_size_of_the_svg(tmp_path: Path) -> None:
    svg, pdf, png = (
        figures.save(bars(), tmp_path / f"chart.{format}", "single").read_bytes()
        for format in ("svg", "pdf", "png")
    )
    inches = float(ElementTree.fromstring(svg).attrib["width"]) / 96
    (box,) = re.findall(rb"/MediaBox \[([^\]]*)\]", pdf)
    assert float(box.split()[2]) == pytest.approx(72 * inches, abs=0.1)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">L", png[16:20])[0] == pytest.approx(300 * inches, abs=1)
    per_metre = struct.unpack(">LL", png[png.index(b"pHYs") + 4 :][:8])
    assert per_metre == pytest.approx((300 / 0.0254,) * 2, rel=1e-3)


def test_widths_keep_their_proportion_in_a_concatenation() -> None:
    axes = groups(figures.svg(charts()["hconcat"]), "role-axis-domain")
    plots = [float(line.get("x2", 0)) for axis in axes for line in axis]
    first, second = (width for width in plots if width > 0)
    assert first == pytest.approx(2 * second, rel=0.02)


def test_a_wide_legend_wraps_where_the_column_is_narrow() -> None:
    names = [f"a planner with a long name, {n}" for n in range(4)]
    data = pl.DataFrame({"name": names, "y": [1.0, 2.0, 3.0, 4.0]})
    chart = alt.Chart(data).mark_bar().encode(x="y:Q", color=alt.Color("name:N", title=None))

    def rows(column: str) -> int:
        places = [
            re.findall(r"translate\([\d.]+,([\d.]+)\)", entry.get("transform", ""))
            for scope in groups(figures.svg(chart, column), "role-scope")
            for entry in scope
        ]
        return len({place for (place,) in places})

    assert rows("double") < rows("single")


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


def test_wrong_names_are_answered_with_the_right_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown column 'singel'. Did you mean 'single'"):
        figures.width_px("singel")
    with pytest.raises(UnknownNameError, match=r"unknown figure format 'jpg'.*svg, pdf, png"):
        figures.save(bars(), tmp_path / "chart.jpg")
    assert list(tmp_path.iterdir()) == []


def test_a_stored_specification_draws_the_same() -> None:
    stored = json.dumps(figures.specification(bars()))
    assert figures.svg(json.loads(stored), "single") == figures.svg(bars(), "single")


def test_ticks_that_would_run_together_are_left_out() -> None:
    nodes = [2**n for n in range(2, 13)]
    axis = alt.Axis(values=nodes, format="d")
    x = alt.X("nodes:Q", scale=alt.Scale(type="log", base=2), axis=axis)
    chart = alt.Chart(pl.DataFrame({"nodes": nodes})).mark_point().encode(x)
    axes = groups(figures.svg(chart | chart, "single"), "role-axis-label")
    assert len(axes) == 2
    for labels in axes:
        shown = sorted(
            (float(re.findall(r"[-\d.]+", text.get("transform", ""))[0]), text.text or "")
            for text in labels.iter(f"{SVG}text")
            if text.get("opacity") != "0"
        )
        assert 3 < len(shown) < len(nodes)
        for (left, one), (right, other) in pairwise(shown):
            assert right - left > 5.2 * (len(one) + len(other)) / 2 + 4  # px of a digit of 7 pt


def test_titles_of_axes_break_where_plots_stand_beside_each_other() -> None:
    title = "ours minus the paper's, percentage points"
    chart = alt.Chart(pl.DataFrame({"x": [1, 2]})).mark_point().encode(x=alt.X("x:Q", title=title))
    for shown, lines in ((chart, 1), (chart | chart, 2), ((chart + chart) | chart, 2)):
        for axis in groups(figures.svg(shown, "single"), "role-axis-title"):
            for text in axis.iter(f"{SVG}text"):
                words = [line.text for line in text.iter(f"{SVG}tspan")] or [text.text]
                assert " ".join(map(str, words)) == title
                assert len(words) == lines

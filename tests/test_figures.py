import base64
import itertools
import json
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import numpy as np
import polars as pl
import pytest
from altair.typing import ChartType

from workbench import figures
from workbench.names import UnknownNameError

SVG = "{http://www.w3.org/2000/svg}"


def frame() -> pl.DataFrame:
    models, parts = ("VGG-19", "ResNet-152", "GoogLeNet"), ("alone", "overlap")
    rows = [(m, p, x, 3.0 * i + x) for i, m in enumerate(models) for p in parts for x in (1, 2, 4)]
    return pl.DataFrame(rows, schema=["model", "part", "x", "y"], orient="row")


def bars() -> alt.Chart:
    marks = alt.Chart(frame(), title="Forward, µs").mark_bar(clip=True)
    chart: alt.Chart = marks.encode(x="model:N", y="sum(y):Q", color="part:N")
    return chart


def lines() -> alt.Chart:
    series = figures.series("model", ["VGG-19", "ResNet-152", "GoogLeNet"])
    marks = alt.Chart(frame()).mark_line(point=True)
    chart: alt.Chart = marks.encode(x="x:Q", y="mean(y):Q", **series)
    return chart


def charts() -> dict[str, ChartType]:
    rule = alt.Chart(pl.DataFrame({"y": [5.0]})).mark_rule().encode(y="y:Q")
    return {
        "single": bars(),
        "lines": lines(),
        "layered": alt.layer(lines(), rule),
        "faceted": bars().properties(height=90).facet("part:N", columns=2),
        "columns": bars().encode(column="part:N"),
        "hconcat": alt.hconcat(lines().properties(width=200), bars().properties(width=100)),
        "vconcat": alt.vconcat(lines(), bars()),
    }


# ---- size ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "inches"), [("single", 3.5), ("double", 7.16)])
@pytest.mark.parametrize("kind", charts())
def test_every_kind_of_chart_is_exactly_a_column_wide(
    kind: str, column: str, inches: float, tmp_path: Path
) -> None:
    chart = charts()[kind]
    root = ElementTree.fromstring(figures.svg(chart, column))
    assert root.get("width") == f"{inches:g}in"
    left, top, width, height = map(float, root.get("viewBox", "").split())
    assert width == pytest.approx(inches * 96)
    assert float(root.get("height", "").removesuffix("in")) == pytest.approx(height / 96, abs=1e-3)
    # What is centred in the window fills it but for a few pixels.
    assert -2.5 <= left <= 0 == top
    # Text is 8 pt or 7 pt at this size, not shrunk to fit.
    sizes = {text.get("font-size") for text in root.iter(f"{SVG}text")}
    assert sizes <= {"10.67px", "9.33px"}

    pdf = figures.save(chart, tmp_path / "chart.pdf", column).read_bytes()
    (box,) = re.findall(rb"/MediaBox \[([^\]]*)\]", pdf)
    assert [float(side) for side in box.split()][:3] == pytest.approx([0, 0, inches * 72], abs=1e-3)

    png = figures.save(chart, tmp_path / "chart.png", column).read_bytes()
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


# ---- colours -------------------------------------------------------------------------------

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "grey": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}


def cielab(colour: str, sight: str) -> np.ndarray:
    code = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)
    seen = np.clip(SIGHT[sight] @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ seen / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: str, other: str, sight: str) -> float:
    return float(np.linalg.norm(cielab(one, sight) - cielab(other, sight)))


# In CIELAB 2.3 is just noticeable side by side, and 10 in grey is a step of the Munsell scale.
@pytest.mark.parametrize(
    ("sight", "any_pair", "neighbours"),
    [("normal", 20, 25), ("deuteranopia", 20, 25), ("protanopia", 20, 25), ("grey", 10, 25)],
)
def test_palette_can_be_told_apart(sight: str, any_pair: float, neighbours: float) -> None:
    palette = figures.PALETTE
    assert min(difference(a, b, sight) for a, b in itertools.combinations(palette, 2)) >= any_pair
    assert min(difference(a, b, sight) for a, b in itertools.pairwise(palette)) >= neighbours
    assert min(difference(colour, "#ffffff", sight) for colour in palette) >= 10


def test_lines_have_a_second_channel() -> None:
    assert len(figures.PALETTE) == len(figures.DASHES) == len(figures.SHAPES)
    assert len(set(map(tuple, figures.DASHES))) == len(set(figures.SHAPES)) == 6
    root = ElementTree.fromstring(figures.svg(lines()))
    dashes = {
        path.get("stroke-dasharray")
        for group in root.iter(f"{SVG}g")
        if "mark-line" in group.get("class", "")
        for path in group.iter(f"{SVG}path")
    }
    assert dashes == {"1,0", "6,2", "2,2"}
    legend = next(g for g in root.iter(f"{SVG}g") if "role-legend-symbol" in g.get("class", ""))
    assert legend is not None
    with pytest.raises(ValueError, match="7 lines in one plot, but 6 colours"):
        figures.series("model", [str(n) for n in range(7)])


# ---- bytes ---------------------------------------------------------------------------------

RENDER = """
import sys
from pathlib import Path
from tests.test_figures import charts
from workbench import figures
for format in figures.FORMATS:
    figures.save(charts()["faceted"], Path(sys.argv[1]) / f"chart.{format}", "single")
"""


def test_the_same_chart_gives_the_same_bytes(tmp_path: Path) -> None:
    elsewhere = {"PYTHONHASHSEED": "7", "PATH": ""}
    root = Path(__file__).parent.parent
    subprocess.run(
        [sys.executable, "-c", RENDER, str(tmp_path)], env=elsewhere, cwd=root, check=True
    )
    # vl-convert writes a PDF's objects in an order that varies from call to call.
    for format, times in (("svg", 1), ("png", 1), ("pdf", 5)):
        there = (tmp_path / f"chart.{format}").read_bytes()
        for _ in range(times):
            here = figures.save(charts()["faceted"], tmp_path / f"here.{format}", "single")
            assert here.read_bytes() == there


def test_pictures_on_one_page_share_no_name() -> None:
    one, other = figures.svg(bars()), figures.svg(bars().encode(y="mean(y):Q"))
    ids = [set(re.findall(r' id="([^"]+)"', picture)) for picture in (one, other)]
    assert all(ids)
    assert not ids[0] & ids[1]
    for picture, names in zip((one, other), ids, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", picture)) == names


# ---- fonts ---------------------------------------------------------------------------------


def characters_of(font: bytes) -> set[str]:
    (count,) = struct.unpack_from(">H", font, 4)
    tables = {
        tag: offset
        for tag, _, offset, _ in (
            struct.unpack_from(">4sLLL", font, 12 + 16 * n) for n in range(count)
        )
    }
    assert {b"glyf", b"loca", b"head", b"hhea", b"hmtx", b"maxp", b"OS/2", b"name"} <= set(tables)
    at = tables[b"cmap"] + struct.unpack_from(">L", font, tables[b"cmap"] + 8)[0]
    form, _, _, _, groups = struct.unpack_from(">HHLLL", font, at)
    assert form == 12
    ranges = [struct.unpack_from(">LLL", font, at + 16 + 12 * n) for n in range(groups)]
    assert all(glyph > 0 for _, _, glyph in ranges)
    return {chr(point) for first, last, _ in ranges for point in range(first, last + 1)}


def test_svg_embeds_every_character_it_shows() -> None:
    picture = figures.svg(bars().properties(title="fit, Δ ≤ 5 µs − no\u00a0break: office"))
    root = ElementTree.fromstring(picture)
    style = root.findtext(f"{SVG}style") or ""
    faces = {
        (weight, family): characters_of(base64.b64decode(data))
        for family, weight, data in re.findall(
            r'family:"([^"]+)";font-weight:(\w+);[^}]*base64,([^)]+)\)', style
        )
    }
    assert {weight for weight, _ in faces} == {"normal", "bold"}
    texts = list(root.iter(f"{SVG}text"))
    assert len(texts) > 8
    for text in texts:
        family, *fallbacks = (text.get("font-family") or "").split(", ")
        assert fallbacks == ["Liberation Sans", "Arial", "Helvetica", "sans-serif"]
        assert set(text.text or "") <= faces[text.get("font-weight") or "normal", family]


def test_pdf_embeds_every_font(tmp_path: Path) -> None:
    pdf = figures.save(bars(), tmp_path / "chart.pdf").read_bytes()
    table_at = int(re.findall(rb"startxref\s+(\d+)", pdf)[0])
    entries = re.findall(rb"(\d{10}) 00000 n\r\n", pdf[table_at:])
    objects = {}
    for number, entry in enumerate(entries, 1):
        assert pdf[int(entry) :].startswith(b"%d 0 obj\n" % number)
        objects[number] = pdf[int(entry) :].partition(b"endobj")[0]
    fonts = [text for text in objects.values() if re.search(rb"/Type /Font\b", text)]
    kinds = [re.findall(rb"/Subtype /(\w+)", text)[0] for text in fonts]
    assert sorted(kinds) == [b"CIDFontType2"] * 2 + [b"Type0"] * 2
    for text, kind in zip(fonts, kinds, strict=True):
        assert re.search(rb"/BaseFont /[A-Z]{6}\+LiberationSans", text)
        if kind == b"CIDFontType2":
            descriptor = objects[int(re.findall(rb"/FontDescriptor (\d+)", text)[0])]
            file = objects[int(re.findall(rb"/FontFile2 (\d+)", descriptor)[0])]
            data = zlib.decompress(file.partition(b"stream\n")[2].rpartition(b"\nendstream")[0])
            assert data[:4] == b"\0\1\0\0"


# ---- names and files -----------------------------------------------------------------------


def test_wrong_names_are_answered_with_the_right_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown column 'singel'. Did you mean 'single'"):
        figures.width_px("singel")
    with pytest.raises(UnknownNameError, match=r"unknown figure format 'jpg'.*svg, pdf, png"):
        figures.save(bars(), tmp_path / "chart.jpg")
    with pytest.raises(UnknownNameError, match="Did you mean 'pdf'"):
        figures.save(bars(), tmp_path / "chart", format="pfd")
    with pytest.raises(UnknownNameError, match="unknown column 'triple'"):
        figures.export([], tmp_path / "out", "svg", "triple")
    assert list(tmp_path.iterdir()) == []


def test_export_renders_what_was_stored(tmp_path: Path) -> None:
    stored = tmp_path / "fig5.vl.json"
    stored.write_text(json.dumps(figures.specification(bars())))
    written = figures.export([stored], tmp_path / "out", "svg", "single")
    assert written == [tmp_path / "out" / "fig5.svg"]
    assert written[0].read_text() == figures.svg(bars(), "single")

    stored.write_text('{"mark": ')
    with pytest.raises(ValueError, match=r"fig5\.vl\.json is not a Vega-Lite specification"):
        figures.export([stored], tmp_path / "out", "svg", "single")
    stored.write_text("[]")
    with pytest.raises(ValueError, match="no JSON object"):
        figures.export([stored], tmp_path / "out", "svg", "single")


def test_theme_is_enabled_once_and_left_alone_by_drawing() -> None:
    alt.theme.enable("default")
    figures.svg(bars())
    assert alt.theme.active == "default"
    figures.theme()
    figures.theme()
    assert alt.theme.active == "workbench"
    assert bars().to_dict()["config"]["range"]["category"] == list(figures.PALETTE)
    # A chart's own configuration wins.
    own = figures.specification(bars().configure_axis(grid=False))["config"]["axis"]
    assert own["grid"] is False
    assert own["labelFontSize"] == 9.33


def test_embedded_is_a_still_picture() -> None:
    data = figures.embedded(bars(), "single").data
    root = ElementTree.fromstring(data)
    expected = ElementTree.fromstring(figures.svg(bars(), "single"))
    assert ElementTree.tostring(root) == ElementTree.tostring(expected)
    assert "<script" not in data
    assert not re.search(r"(?:src|href)=.https?:|url\(['\"]?https?:", data)


def test_import_waits_for_nothing_heavy() -> None:
    code = (
        "import sys, workbench.figures, workbench.widgets;"
        "heavy = {'altair', 'polars', 'ipywidgets', 'vl_convert', 'IPython', 'torch'};"
        "found = heavy & set(sys.modules);"
        "sys.exit(f'imported: {found}' if found else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

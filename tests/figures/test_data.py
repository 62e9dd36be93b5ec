"""Data of local files is drawn as if it stood in the chart; what cannot be drawn is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pytest
from altair.typing import ChartType

from workbench import figures
from workbench.utils.checks import UserError
from workbench.widgets import Slider, explorer

FRAME = pl.DataFrame({"x": [1, 2, 3], "y": [1.0, 4.0, 9.0], "k": ["a", "b", "b"]})
CSV = FRAME.write_csv()
SQUARE = [[[0, 0], [0, 9], [9, 9], [9, 0], [0, 0]]]
LAND = {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": SQUARE}}
TOPOLOGY = {
    "type": "Topology",
    "arcs": SQUARE,
    "objects": {"land": {"type": "Polygon", "arcs": [[0]]}},
}
DRAWN = {
    "have.csv": CSV,
    "upper.CSV": CSV,
    "mark.csv": "\ufeff" + CSV,
    "have.tsv": FRAME.write_csv(separator="\t"),
    "have.json": json.dumps(FRAME.to_dicts()),
    "noname": json.dumps(FRAME.to_dicts()),
}


def points(data: Any) -> alt.Chart:
    chart: alt.Chart = alt.Chart(data).mark_point().encode(x="x:Q", y="y:Q")
    return chart


def looked_up(data: Any, other: Any) -> alt.Chart:
    found = alt.LookupData(data=other, key="x", fields=["y"])
    chart: alt.Chart = points(data).transform_lookup("x", from_=found)
    return chart


def land(data: Any) -> alt.Chart:
    chart: alt.Chart = alt.Chart(data).mark_geoshape()
    return chart


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in DRAWN.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "have.dat").write_text(FRAME.write_csv(separator="|"))
    (tmp_path / "inner.json").write_text(json.dumps({"in": FRAME.to_dicts()}))
    (tmp_path / "land.json").write_text(json.dumps(TOPOLOGY))
    (tmp_path / "none.csv").write_text("x,y\n")
    (tmp_path / "blank.csv").write_text("x,y\r\n\r\n \n")
    (tmp_path / "deep.json").write_text("[" * 10**5)
    (tmp_path / "latin.csv").write_bytes("x,y\né,1".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", DRAWN)
def test_a_file_is_drawn_as_its_table(name: str, home: Path) -> None:
    inline = figures.svg(points(FRAME))
    assert inline.count('aria-roledescription="point"') == 3
    for source in (name, str(home / name), (home / name).as_uri()):
        assert figures.svg(points(source)) == inline


Build = Callable[[Any], ChartType]
KINDS: dict[str, Build] = {
    "layered": lambda data: points(data) + points(FRAME).mark_line(),
    "concatenated": lambda data: points(FRAME) | points(data),
    "faceted": lambda data: points(data).facet("k:N"),
    "looked up": lambda data: looked_up(FRAME.select("x"), data),
    "of a lookup": lambda data: looked_up(data, FRAME),
}


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_every_part_of_a_chart_are_drawn(kind: str) -> None:
    build = KINDS[kind]
    assert figures.svg(build("have.csv")) == figures.svg(build(FRAME))


@pytest.mark.parametrize(
    "source",
    [
        alt.UrlData("have.dat", format=alt.DsvDataFormat(type="dsv", delimiter="|")),
        alt.UrlData("inner.json", format=alt.JsonDataFormat(type="json", property="in")),
        alt.UrlData("data:text/csv,x,y%0A1,1%0A2,4%0A3,9", format=alt.CsvDataFormat(type="csv")),
        alt.InlineData(CSV, format=alt.CsvDataFormat(type="csv")),
    ],
)
def test_a_format_that_is_given_is_kept(source: Any) -> None:
    assert figures.svg(points(source)) == figures.svg(points(FRAME))


def test_a_map_of_a_file_is_drawn() -> None:
    inline = figures.svg(land(alt.InlineData([LAND])))
    assert figures.svg(land(alt.topo_feature("land.json", "land"))) == inline
    figures.svg(land(alt.sphere()))  # data that is neither file nor table


def test_a_stored_specification_needs_its_file_no_more(home: Path) -> None:
    stored = figures.specification(points("have.csv"))
    (home / "have.csv").unlink()
    assert figures.svg(stored) == figures.svg(points(FRAME))


REFUSED = {
    "http://localhost:9/a.csv": "needs no network: save it as a file",
    "https://localhost/a.json": "needs no network",
    "s3://bucket/a.csv": "needs no network",
    "missing.csv": "missing.csv: cannot be read: No such file",
    "file:///missing/a.csv": "cannot be read: No such file",
    ".": "cannot be read: Is a directory",
    "latin.csv": "not text in UTF-8",
    "have.dat": "have.dat is not JSON",
    "deep.json": "deep.json is not JSON",
    "data:text/csv,%ff": "data:text/csv,%ff cannot be read",
    "data:": "data: cannot be read",
    "none.csv": "no rows",
    "blank.csv": "no rows",
}


@pytest.mark.parametrize("source", REFUSED)
def test_a_file_that_cannot_be_drawn_is_refused(source: str, home: Path) -> None:
    path = home / "chart.svg"
    for chart in (points(source), {"data": {"url": source}, "mark": "point"}):
        with pytest.raises(UserError, match=REFUSED[source]):
            figures.save(chart, path)
    assert not path.exists()
    if REFUSED[source] != "no rows":  # beside a layer of rows, one without rows is drawn
        for build in KINDS.values():
            with pytest.raises(UserError, match=REFUSED[source]):
                figures.svg(build(source))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (alt.NamedData("elsewhere"), "names its data 'elsewhere' and defines none"),
        (FRAME.clear(), "has no rows"),
        (alt.InlineData([]), "has no rows"),
        (alt.InlineData("x,y", format=alt.CsvDataFormat(type="csv")), "has no rows"),
    ],
)
def test_data_without_a_row_is_refused(data: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        figures.svg(points(data))


def test_a_layer_without_rows_beside_one_with_rows_is_drawn() -> None:
    assert figures.svg(points(FRAME) + points(FRAME.clear())).count('"point"') == 3


def test_an_explorer_draws_a_file_and_shows_why_it_cannot() -> None:
    def draw(n: int) -> alt.Chart:
        return points("have.csv" if n == 1 else "missing.csv")

    app = explorer(draw, {"n": Slider(1, 2, integer=True)})
    assert CSV.strip() in str(app.chart.template).replace("\\n", "\n")
    app.controls["n"].value = 2
    assert "missing.csv: cannot be read" in app.status.value
    assert "have.csv" in str(app.chart.spec)

"""Data of local files is drawn as if it stood in the chart; what cannot be drawn is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pytest
from altair.typing import ChartType

from workbench import figures
from workbench.utils.checks import UserError

FRAME = pl.DataFrame({"x": [1, 2, 3], "y": [1.0, 4.0, 9.0], "k": ["a", "b", "b"]})
CSV = FRAME.write_csv()
SQUARE = [[[0, 0], [0, 9], [9, 9], [9, 0], [0, 0]]]
LAND = {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": SQUARE}}
TOPOLOGY = {
    "type": "Topology",
    "arcs": SQUARE,
    "objects": {"land": {"type": "Polygon", "arcs": [[0]]}},
}
FILES = {
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
    source = alt.LookupData(data=other, key="x", fields=["y"])
    chart: alt.Chart = points(data).transform_lookup("x", from_=source)
    return chart


def with_other_views(data: Any) -> dict[str, ChartType]:
    """Charts in which this data stands somewhere."""
    return {
        "layered": points(data) + points(FRAME).mark_line(),
        "concatenated": points(FRAME) | points(data),
        "faceted": points(data).facet("k:N"),
        "looked up": looked_up(FRAME.select("x"), data),
    }


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "have.dat").write_text(FRAME.write_csv(separator="|"))
    (tmp_path / "land.json").write_text(json.dumps(TOPOLOGY))
    (tmp_path / "none.csv").write_text("x,y\n")
    (tmp_path / "deep.json").write_text("[" * 10**5)
    (tmp_path / "latin.csv").write_bytes("x,y\né,1".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_drawn_as_its_table(name: str, home: Path) -> None:
    inline = figures.svg(points(FRAME))
    assert inline.count('aria-roledescription="point"') == 3
    assert figures.svg(points(name)) == inline
    assert figures.svg(points((home / name).as_uri())) == inline


@pytest.mark.parametrize("kind", with_other_views(FRAME))
def test_files_of_every_part_of_a_chart_are_drawn(kind: str) -> None:
    of_file, of_table = with_other_views("have.csv")[kind], with_other_views(FRAME)[kind]
    assert figures.svg(of_file) == figures.svg(of_table)


def test_a_format_that_a_chart_gives_is_kept() -> None:
    bars = alt.UrlData("have.dat", format=alt.DsvDataFormat(type="dsv", delimiter="|"))
    assert figures.svg(points(bars)) == figures.svg(points(FRAME))


def test_a_map_of_a_file_is_drawn() -> None:
    inline = figures.svg(alt.Chart(alt.InlineData([LAND])).mark_geoshape())
    assert figures.svg(alt.Chart(alt.topo_feature("land.json", "land")).mark_geoshape()) == inline
    figures.svg(alt.Chart(alt.sphere()).mark_geoshape())  # neither file nor table


def test_a_stored_specification_needs_its_file_no_more(home: Path) -> None:
    stored = figures.specification(points("have.csv"))
    (home / "have.csv").unlink()
    assert figures.svg(stored) == figures.svg(points(FRAME))


REFUSED = {
    "https://localhost/a.json": "needs no network: save it as a file",
    "missing.csv": "missing.csv: cannot be read: No such file",
    "latin.csv": "not text in UTF-8",
    "have.dat": "have.dat is not JSON",
    "deep.json": "deep.json is not JSON",
}


@pytest.mark.parametrize("source", REFUSED)
def test_a_file_that_cannot_be_drawn_is_refused(source: str, home: Path) -> None:
    path = home / "chart.svg"
    for chart in (points(source), *with_other_views(source).values()):
        with pytest.raises(UserError, match=REFUSED[source]):
            figures.save(chart, path)
    assert not path.exists()


@pytest.mark.parametrize(
    "data", ["none.csv", FRAME.clear(), alt.InlineData([]), alt.NamedData("elsewhere")]
)
def test_data_without_a_row_is_refused(data: Any) -> None:
    with pytest.raises(UserError, match="has no rows"):
        figures.svg(points(data))


def test_a_layer_without_rows_beside_one_with_rows_is_drawn() -> None:
    assert figures.svg(points(FRAME) + points(FRAME.clear())).count('"point"') == 3

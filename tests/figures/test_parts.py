"""Parts of charts that several systems share."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl
import pytest

from workbench import figures
from workbench.figures import parts

TITLES = {"a": "First", "b": "Second"}


def test_names_without_a_title_stay_and_come_last() -> None:
    frame = pl.DataFrame({"planner": ["mine", "b", "a", "b"]})
    shown = parts.titled(frame, planner=TITLES, model=TITLES)
    assert shown["planner"].to_list() == ["mine", "Second", "First", "Second"]
    assert parts.present(frame["planner"], TITLES) == ["First", "Second", "mine"]


def test_colours_and_shapes_follow_the_order() -> None:
    def written(channel: Any) -> Any:
        return alt.Chart().mark_point().encode(channel).to_dict()["encoding"]

    scale = written(parts.colour("planner", ["x", "y"], skip=1))["color"]["scale"]
    assert scale == {"domain": ["x", "y"], "range": list(figures.PALETTE[1:3])}
    shapes = written(parts.shape("planner", ["x"]))["shape"]["scale"]
    assert shapes["range"] == [figures.SHAPES[0]]
    assert written(parts.colour("planner", ["x"], legend=None))["color"]["legend"] is None


def test_a_ring_stands_where_the_paper_has_a_value_and_nowhere_else() -> None:
    drawn = pl.DataFrame({"x": [1.0, 2.0, 3.0], "paper": [None, 5.0, 7.0]})
    assert parts.rings_title(drawn, "by the paper") == ["rings: by the paper"]
    assert parts.rings_title(drawn.head(1)) == []
    svg = figures.svg(parts.paper_rings(alt.Chart(drawn).encode(x="x:Q"), y="paper:Q"), "single")
    assert svg.count(f'fill="white" stroke="{figures.INK}"') == 2


@pytest.mark.parametrize(("panels", "columns", "own_axes"), [(2, 2, 0), (3, 3, 0), (5, 2, 1)])
def test_no_axis_stands_under_an_empty_place(panels: int, columns: int, own_axes: int) -> None:
    names = [str(number) for number in range(panels)]
    chart = alt.Chart(pl.DataFrame({"x": range(panels), "of": names})).mark_point().encode(x="x:Q")
    found = parts.facets(chart, "of", names, "Panels")
    assert found.to_dict()["columns"] == columns
    svg = figures.svg(found, "double")
    titles = svg.count(">x<")
    assert titles == (panels if own_axes else columns)


@pytest.mark.parametrize(("least", "begins"), [(0.0, 0), (79.9, 0), (80.0, 80), (94.2, 90)])
def test_the_axis_of_high_accuracies_begins_below_them(least: float, begins: int) -> None:
    axis: Any = parts.accuracy("", least).to_dict()
    assert axis["scale"]["domain"] == [begins, 100]


def view(offset: int) -> alt.LayerChart:
    frame = pl.DataFrame({"x": [1, 2], "y": [offset, 7], "kind": ["a", f"b{offset}"]})
    points = alt.Chart(frame).mark_point().encode(x="x:Q", y="y:Q", color="kind:N")
    return alt.LayerChart(layer=[points, points.mark_line()], height=60, title=f"from {offset}")


def test_stacked_views_look_as_altairs_concatenation() -> None:
    figures.theme()
    row = alt.hconcat(view(1), view(2)).resolve_scale(color="independent")
    altairs = alt.vconcat(row, view(3), title=["Both"]).resolve_scale(color="independent")
    joined = figures.stacked(view(1), view(2), how="hconcat")
    assert figures.svg(figures.stacked(joined, view(3), title=["Both"])) == figures.svg(altairs)


def test_stacked_views_share_the_scales_that_are_not_named() -> None:
    figures.theme()
    joined = figures.stacked(view(1), view(2), independent=())
    assert figures.svg(joined) == figures.svg(alt.vconcat(view(1), view(2)))


def test_a_specification_names_its_schema() -> None:
    figures.theme()
    for chart in (view(1), figures.stacked(view(1), view(2))):
        assert figures.specification(chart)["$schema"] == alt.SCHEMA_URL

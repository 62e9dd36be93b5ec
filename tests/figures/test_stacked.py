"""Views joined by hand are drawn as altair's own concatenation is."""

from __future__ import annotations

import altair as alt
import polars as pl
import pytest

from workbench import figures


def view(offset: int) -> alt.LayerChart:
    frame = pl.DataFrame({"x": [1, 2], "y": [offset, 7], "kind": ["a", f"b{offset}"]})
    points = alt.Chart(frame).mark_point().encode(x="x:Q", y="y:Q", color="kind:N")
    return alt.LayerChart(layer=[points, points.mark_line()], height=60, title=f"from {offset}")


@pytest.mark.parametrize("how", ["vconcat", "hconcat"])
def test_it_looks_as_altairs(how: str) -> None:
    figures.theme()
    joined = figures.stacked(view(1), view(2), how=how, title=["Both"])  # type: ignore[arg-type]
    altairs = getattr(alt, how)(view(1), view(2), title=["Both"]).resolve_scale(color="independent")
    assert figures.svg(joined) == figures.svg(altairs)


def test_rows_stand_in_columns() -> None:
    figures.theme()
    joined = figures.stacked(figures.stacked(view(1), view(2), how="hconcat"), view(3))
    altairs = alt.vconcat(
        alt.hconcat(view(1), view(2)).resolve_scale(color="independent"), view(3)
    ).resolve_scale(color="independent")
    assert figures.svg(joined) == figures.svg(altairs)


def test_views_share_the_scales_that_are_not_named() -> None:
    figures.theme()
    joined = figures.stacked(view(1), view(2), independent=())
    assert figures.svg(joined) == figures.svg(alt.vconcat(view(1), view(2)))


def test_a_specification_names_its_schema() -> None:
    figures.theme()
    for chart in (view(1), figures.stacked(view(1), view(2))):
        assert figures.specification(chart)["$schema"] == alt.SCHEMA_URL

"""What of a chart is sent again when a slider moves, and what stays."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from workbench.widgets.live_chart import split


def test_a_template_leaves_out_rows_titles_and_ends_of_axes() -> None:
    def spec(rows: list[int], title: str, end: float, color: str = "red") -> dict[str, Any]:
        frame = pl.DataFrame({"x": rows})
        chart = alt.Chart(frame, title=title).mark_point(color=color)
        chart = chart.encode(x=alt.X("x:Q", title="seconds").scale(domain=[0, end]))
        return dict((chart | chart).to_dict())

    template, data, signals = split(spec([1], "one", 2.0))
    assert split(spec([3, 4], "two", 5.0)) == (
        template,
        {"rows_0": [{"x": 3}, {"x": 4}]},
        {"signal_0": 0, "signal_1": 5.0, "signal_2": "two"}
        | {"signal_3": 0, "signal_4": 5.0, "signal_5": "two"},
    )
    assert data == {"rows_0": [{"x": 1}]}
    assert signals["signal_2"] == "one"
    assert split(spec([1], "one", 2.0, "blue"))[0] != template


def test_layers_that_share_an_axis_share_its_ends() -> None:
    """Vega-Lite takes ends of different names for the ends of different axes, and draws neither."""
    base = alt.Chart(pl.DataFrame({"x": [1.0], "y": [2.0]})).encode(
        alt.X("x:Q").scale(domain=[0, 100]), alt.Y("y:Q").scale(domain=[0, 100])
    )
    layered = (base.mark_bar() + base.mark_text()).to_dict()
    template, _, signals = split({"vconcat": [layered, layered]})
    assert list(signals.values()) == [0, 100] * 4  # of each view's x and y
    first, second = (view["layer"] for view in template["vconcat"])
    for channel in ("x", "y"):
        one, other = (layer["encoding"][channel]["scale"]["domain"] for layer in first)
        assert one == other
        assert one != second[0]["encoding"][channel]["scale"]["domain"]


def test_categories_that_stand_as_their_rows_are_sorted_by_their_number() -> None:
    def spec(*names: str) -> dict[str, Any]:
        bars = alt.Chart(pl.DataFrame({"name": names})).mark_bar()
        return dict(bars.encode(alt.Y("name:N", sort=None)).to_dict())

    template, data, _ = split(spec("b", "a"))
    assert split(spec("a", "c", "b"))[0] == template
    assert template["encoding"]["y"]["sort"] == {"field": "row_number", "op": "min"}
    (rows,) = data.values()
    assert rows == [{"name": "b", "row_number": 0}, {"name": "a", "row_number": 1}]

"""Frames of points under each other: no row lost, no parameter hidden by a column of its name."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.experiments.joined import joined

Rows = list[dict[str, int]]


def frame(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame(columns)


@given(
    st.lists(
        st.tuples(
            st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.integers(0, 2)}),
            st.lists(
                st.dictionaries(st.sampled_from(["a", "x", "y"]), st.integers(0, 2), min_size=1),
                max_size=3,
            ),
        ),
        max_size=4,
    )
)
def test_every_row_is_there_with_its_point(parts: list[tuple[dict[str, int], Rows]]) -> None:
    found = joined([(point, pl.DataFrame(rows)) for point, rows in parts], "ab")
    # As a point's frame has it: a column of any of its rows is one of all.
    whole = [
        (point, {name: row.get(name) for name in {name for one in rows for name in one}})
        for point, rows in parts
        for row in rows
    ]
    title = (
        "a" if all(row.get("a", point["a"]) == point["a"] for point, row in whole) else "swept_a"
    )
    asked = [{**row, title: point["a"], "b": point["b"]} for point, row in whole]
    assert [
        {name: value for name, value in row.items() if name in wanted or value is not None}
        for row, wanted in zip(found.to_dicts(), asked, strict=True)
    ] == asked
    assert found.columns[:2] == [title, "b"]


def test_a_parameter_is_never_called_like_another_column() -> None:
    parts = [({"a": 1, "swept_a": 2}, frame(a=[3], swept_swept_a=[4]))]
    assert joined(parts).to_dicts() == [
        {"swept_swept_swept_a": 1, "swept_a": 2, "a": 3, "swept_swept_a": 4}
    ]


def test_points_without_rows() -> None:
    assert joined([], ["a"]).columns == ["a"]
    found = joined([({"a": 1}, pl.DataFrame()), ({"a": 2}, pl.DataFrame(schema={"x": pl.Int64}))])
    assert (found.columns, len(found)) == (["a", "x"], 0)
    assert joined([({"a": 1}, pl.DataFrame()), ({"a": 2}, frame(x=[3]))]).rows() == [(2, 3)]


def test_columns_of_no_common_type_are_an_error() -> None:
    with pytest.raises(pl.exceptions.PolarsError):
        joined([({"a": 1}, frame(x=[1])), ({"a": 2}, frame(x=[[1]]))])

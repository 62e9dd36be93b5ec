"""Frames of many points as one frame, with a column for each parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

Part = tuple[Mapping[str, Any], pl.DataFrame]
"""A point's values by name, and its rows."""


def joined(parts: Sequence[Part], parameters: Iterable[str] = ()) -> pl.DataFrame:
    """Return the rows of all points in their order, each with its point's values in front.

    Columns that a point lacks are null there. If the rows have a column of a parameter's name, it
    remains the only one of that name: the parameter's is left out where both say the same at all
    points, else called ``swept_NAME``.

    Parameters
    ----------
    parts
        Each point with its rows.
    parameters
        Names of the parameters, which are columns even if there are no points.

    Raises
    ------
    polars.exceptions.PolarsError
        A column holds values of types that have none in common, as numbers and structs.
    """
    names = list(dict.fromkeys([*parameters, *(name for point, _ in parts for name in point)]))
    columns = {*names, *(name for _, frame in parts for name in frame.columns)}
    titles = {name: _title(name, columns, parts) for name in names}
    titled = [
        pl.DataFrame([pl.Series(titles[name], [point[name]] * len(frame)) for name in point])
        for point, frame in parts
    ]
    empty = pl.DataFrame(schema=dict.fromkeys(titles.values(), pl.Null))
    rows = [
        pl.concat([own, frame.drop(own.columns, strict=False)], how="horizontal")
        for own, (_, frame) in zip(titled, parts, strict=True)
    ]
    return pl.concat([empty, *rows], how="diagonal_relaxed")


def _title(name: str, columns: set[str], parts: Sequence[Part]) -> str:
    """Return the name of a parameter's column, which must not hide another one."""
    own = [(point.get(name), frame[name]) for point, frame in parts if name in frame.columns]
    if all(value == said for value, series in own for said in series.to_list()):
        return name
    title = f"swept_{name}"
    while title in columns:
        title = f"swept_{title}"
    return title

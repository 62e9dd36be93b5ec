"""Small drawings of systems: who computes, and what goes between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from workbench.figures.parts import GREY
from workbench.figures.style import INK, PALETTE

if TYPE_CHECKING:
    import altair as alt

FILLS = {
    "far": PALETTE[0],
    "near": PALETTE[3],
    "small": PALETTE[5],
    "group": "#f4f4f4",
    "note": "#ffffff",
}
"""Colours of boxes: machines far away, nearby and small ones, groups of machines, and notes."""


class Box(NamedTuple):
    """A labelled rectangle around a place; a drawing is 10 wide and 4 high."""

    label: str
    x: float
    y: float
    kind: str = "near"
    width: float = 1.4
    height: float = 0.7


class Line(NamedTuple):
    """A straight line; an arrow's `head` is a direction, such as ``right``."""

    x: float
    y: float
    x2: float
    y2: float
    dashed: bool = False
    head: str = ""


class Sketch(NamedTuple):
    """Lines, and boxes above them."""

    title: str
    lines: tuple[Line, ...]
    boxes: tuple[Box, ...]


def joined(pairs: Iterable[tuple[Box, Box]], *, dashed: bool = False) -> tuple[Line, ...]:
    """Lines between the middles of boxes."""
    return tuple(Line(a.x, a.y, b.x, b.y, dashed) for a, b in pairs)


def draw(sketch: Sketch) -> alt.LayerChart:
    """Draw a sketch."""
    import altair as alt
    import polars as pl

    boxes = pl.DataFrame(sketch.boxes, orient="row", schema=Box._fields)
    lines = pl.DataFrame(sketch.lines, orient="row", schema=Line._fields)
    wide, high = (alt.Scale(domain=[0, end], nice=False) for end in (10, 4))
    x, left, tip_x = (alt.X(f"{name}:Q", axis=None, scale=wide) for name in ("x", "left", "x2"))
    y, low, tip_y = (alt.Y(f"{name}:Q", axis=None, scale=high) for name in ("y", "low", "y2"))
    dash = alt.when("datum.dashed").then(alt.value([3, 3])).otherwise(alt.value([1, 0]))
    links = alt.Chart(lines).mark_rule(color=GREY, strokeWidth=1)
    heads = alt.Chart(lines.filter(pl.col("head") != "")).mark_point(color=GREY, size=30)
    directions = ["right", "left", "down"]
    shapes = alt.Scale(domain=directions, range=[f"triangle-{name}" for name in directions])
    half_wide, half_high = pl.col("width") / 2, pl.col("height") / 2
    corners = boxes.with_columns(
        left=pl.col("x") - half_wide,
        right=pl.col("x") + half_wide,
        low=pl.col("y") - half_high,
        high=pl.col("y") + half_high,
    )
    fills = alt.Scale(domain=list(FILLS), range=list(FILLS.values()))
    fill = alt.Fill("kind:N", scale=fills, legend=None)
    rectangles = (
        alt.Chart(corners)
        .mark_rect(cornerRadius=3)
        .encode(x=left, x2="right:Q", y=low, y2="high:Q", fill=fill)
    )
    labels = alt.Chart(boxes.filter(pl.col("label") != "")).mark_text()
    dark = alt.when("datum.kind == 'far'").then(alt.value("white")).otherwise(alt.value(INK))
    layers = [
        rectangles.transform_filter("datum.kind == 'group'"),
        links.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", strokeDash=dash),
        heads.encode(x=tip_x, y=tip_y, shape=alt.Shape("head:N", scale=shapes, legend=None)),
        rectangles.transform_filter("datum.kind != 'group'"),
        labels.encode(x=x, y=y, text="label:N", color=dark),
    ]
    return alt.LayerChart(layer=layers, height=150, title=[sketch.title])

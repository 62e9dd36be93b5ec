"""Small drawings of the five systems: who computes, and what goes between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from workbench.figures.parts import GREY
from workbench.figures.style import INK, PALETTE
from workbench.utils.checks import choose

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


def _joined(pairs: Iterable[tuple[Box, Box]], *, dashed: bool = False) -> tuple[Line, ...]:
    return tuple(Line(a.x, a.y, b.x, b.y, dashed) for a, b in pairs)


def _dynacomm() -> Sketch:
    servers = [Box("parameter server", x, 3.3, "far", 1.9) for x in (2, 4.2, 6.4, 8.6)]
    workers = [Box("worker", x, 0.7) for x in (1.7, 3.5, 5.3, 7.1, 8.9)]
    notes = [
        Box("cloud", 0.4, 3.3, "note", 0.7),
        Box("edge", 0.4, 0.7, "note", 0.7),
        Box("parameters down, gradients up, layer by layer", 5.3, 2, "note", 4.3, 0.5),
    ]
    lines = _joined((worker, server) for worker in workers for server in servers)
    return Sketch("Workers and parameter servers", lines, (*servers, *workers, *notes))


def _hiertrain() -> Sketch:
    tiers = [
        Box("device", 1.3, 2, "small", 1.8),
        Box("edge server", 5, 2, "near", 1.8),
        Box("cloud", 8.7, 2, "far", 1.8),
    ]
    layers = [
        Box(
            "",
            tier.x - 0.7 + 0.35 * layer,
            1.15,
            tier.kind if layer < trained else "group",
            0.28,
            0.4,
        )
        for tier, trained in zip(tiers, (2, 3, 5), strict=True)
        for layer in range(5)
    ]
    notes = [
        Box("samples, results of layers, gradients", 5, 3.4, "note", 3.6, 0.5),
        Box("the layers that each trains, on some of the samples", 5, 0.4, "note", 4.6, 0.5),
    ]
    device, _, cloud = tiers
    over = (
        Line(device.x, 3.4, cloud.x, 3.4),
        *(Line(end.x, 2, end.x, 3.4) for end in (device, cloud)),
    )
    lines = (*_joined(pairwise(tiers)), *over)
    return Sketch("Device, edge server and cloud", lines, (*tiers, *layers, *notes))


def _edgegossip() -> Sketch:
    platforms = [
        Box("GPU platform", 1.5, 3.3, "far", 2.2),
        Box("GPU platform", 8.5, 3.3, "far", 2.2),
        Box("CPU platform", 8.5, 0.7, "small", 1.7),
        Box("CPU platform", 1.5, 0.7, "small", 1.7),
    ]
    balancer = Box("balancer", 5, 2)
    notes = [
        Box("models", 5, 3.3, "note", 0.9, 0.4),
        Box("models", 5, 0.7, "note", 0.9, 0.4),
        Box("reports, shares of data", 3.1, 2.05, "note", 2.0, 0.4),
    ]
    ring = _joined(pairwise([*platforms, platforms[0]]))
    stars = _joined(((platform, balancer) for platform in platforms), dashed=True)
    boxes = (*platforms, balancer, *notes)
    return Sketch("Platforms that exchange models with peers", (*ring, *stars), boxes)


def _dlion() -> Sketch:
    groups = [Box("", x, 1.8, "group", 2.6, 1.7) for x in (1.5, 5, 8.5)]
    large = [Box("worker", group.x, 2.15, "far", 1.7, 0.7) for group in groups]
    small = [Box("worker", group.x, 1.35, "near", 1.1, 0.45) for group in groups]
    notes = [
        *(Box("micro-cloud, by LAN", group.x, 0.5, "note", 2.4, 0.4) for group in groups),
        Box("parts of gradients, best weights, by WAN", 5, 3.6, "note", 4.0, 0.4),
    ]
    first, _, last = groups
    over = [Line(first.x, 3.6, last.x, 3.6, dashed=True)]
    over += [Line(group.x, 2.65, group.x, 3.6, dashed=True) for group in groups]
    within = _joined(zip(large, small, strict=True))
    return Sketch("Workers in micro-clouds", (*over, *within), (*groups, *large, *small, *notes))


def _olpb() -> Sketch:
    names = ("convolve", "add", "ReLU", "multiply", "loss")
    forward = [Box(name, 1.9 + 1.8 * at, 3.3, "near", 1.3) for at, name in enumerate(names)]
    backward = [Box(f"{box.label}'", box.x, 1.1, "far", 1.3) for box in forward]
    groups = [Box("", x, 1.1, "group", 3.3, 1.1) for x in (2.8, 6.4)]
    notes = [
        Box("forward", 0.45, 3.3, "note", 0.9),
        Box("backward", 0.45, 1.1, "note", 0.9),
        Box("two levels: a subtask of a small node", 4.6, 0.25, "note", 3.6, 0.4),
    ]
    there = [Line(a.x + 0.65, a.y, b.x - 0.68, b.y, head="right") for a, b in pairwise(forward)]
    back = [Line(b.x - 0.65, b.y, a.x + 0.68, a.y, head="left") for a, b in pairwise(backward)]
    kept = [
        Line(a.x, 2.95, b.x, 1.5, dashed=True, head="down")
        for a, b in zip(forward, backward, strict=True)
    ]
    boxes = (*groups, *forward, *backward, *notes)
    return Sketch("Operators, forward and backward", (*there, *back, *kept), boxes)


SKETCHES: Mapping[str, Callable[[], Sketch]] = {
    "dynacomm": _dynacomm,
    "hiertrain": _hiertrain,
    "edgegossip": _edgegossip,
    "dlion": _dlion,
    "olpb": _olpb,
}


def architecture(system: str) -> alt.LayerChart:
    """Draw who computes in a system, and what goes between them."""
    import altair as alt
    import polars as pl

    sketch = choose("system", system, SKETCHES)()
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

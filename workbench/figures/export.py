"""Export of a chart one column wide: SVG, PDF and PNG, drawn by vl-convert."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

from workbench.figures.style import specification
from workbench.figures.titles import break_axis_titles, headed
from workbench.utils import files
from workbench.utils.checks import UserError, choose

if TYPE_CHECKING:
    from workbench.figures.style import Figure

COLUMNS: Final = {"single": 3.5, "double": 7.16}
"""Width in inches of a figure in one column, and across both, of an IEEE page."""

FORMATS: Final = ("svg", "pdf", "png")
"""What `save` writes."""

# A pixel of Vega is a CSS pixel, 1/96 inch: a figure has the same size on screen and on paper.
_PX_PER_INCH: Final = 96
_PT_PER_PX: Final = 72 / _PX_PER_INCH
_PNG_DPI: Final = 300
_PLOT_PX: Final = 300  # a plot that gives no width
_LEAST_PLOT_PX: Final = 24
_SLACK_PX: Final = 4  # cells of a facet are rounded up to whole pixels
_MOST_DRAWINGS: Final = 5
_LEGEND_COLUMNS: Final = (None, 4, 3, 2, 1)


def width_px(column: str = "double") -> float:
    """Width of a column in Vega's pixels: 336 for ``"single"``, 687.36 for ``"double"``."""
    return round(choose("column", column, COLUMNS) * _PX_PER_INCH, 4)


def svg(chart: Figure, column: str = "double") -> str:
    """Draw `chart` as SVG, one column wide to a few pixels; its legend wraps where it has to.

    `chart` is an altair chart (single, layered, faceted or concatenated) or its specification,
    `column` ``"single"`` (3.5 in) or ``"double"`` (7.16 in). Plots become narrower, text does not
    become smaller; where three facets in a row are too wide, there are two. A chart that does not
    fit is a ValueError.
    """
    target_px = width_px(column)
    spec = headed(specification(chart), target_px)
    arrangements = [spec, _in_pairs(spec)] if spec.get("columns", 0) > 2 else [spec]
    for arrangement, columns in itertools.product(arrangements, _LEGEND_COLUMNS):
        legend = spec["config"]["legend"] | ({"columns": columns} if columns else {})
        config = spec["config"] | {"legend": legend}
        picture = _fitted({**arrangement, "config": config}, target_px)
        if _width_px(picture) <= target_px + _SLACK_PX:
            return picture
    raise UserError(
        f"the chart needs at least {_width_px(picture) / _PX_PER_INCH:.2f} in, more than the "
        f"{column} column's {COLUMNS[column]} in: shorten its labels or legend, or facet it into "
        "fewer columns" + ('; or take column "double"' if column == "single" else "")
    )


def save(chart: Figure, path: Path | str, column: str = "double") -> Path:
    """Write `chart` to `path`, whole or not at all. Returns `path`.

    Parent folders are made. The suffix of `path` is ``.svg``, ``.pdf`` or ``.png`` (300 dpi);
    another is an UnknownNameError. Else as `svg`.
    """
    target = files.expanded(path)
    renderers: dict[str, Callable[[str], bytes]] = {"svg": str.encode, "pdf": _pdf, "png": _png}
    render = choose("figure format", target.suffix.removeprefix(".").lower(), renderers)
    files.write_bytes(target, render(svg(chart, column)))
    return target


def _pdf(picture: str) -> bytes:
    import vl_convert

    root = ElementTree.fromstring(picture)
    for side in ("width", "height"):  # vl-convert takes a pixel for a point
        root.set(side, f"{float(root.attrib[side]) * _PT_PER_PX:g}")
    pdf: bytes = vl_convert.svg_to_pdf(ElementTree.tostring(root, encoding="unicode"))
    return pdf


def _png(picture: str) -> bytes:
    import vl_convert

    png: bytes = vl_convert.svg_to_png(picture, scale=_PT_PER_PX, ppi=_PNG_DPI)
    return png


def _in_pairs(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification of facets with two in a row, each with its own horizontal axis."""
    # Axes at the foot of a column would stand under the empty place of the last row, too.
    resolve = spec.get("resolve", {})
    axes = {**resolve.get("axis", {}), "x": "independent"}
    return {**spec, "columns": 2, "resolve": {**resolve, "axis": axes}}


def _fitted(spec: Mapping[str, Any], target_px: float) -> str:
    """Draw a chart with plots so wide that all of it is as wide as a column.

    A picture's width is linear in that of its plots, but for labels that come and go: what a
    drawing misses the column by gives the next one.
    """
    import vl_convert

    def drawn(factor: float) -> tuple[str, float]:
        picture: str = vl_convert.vegalite_to_svg(_scaled(spec, factor))
        return picture, _width_px(picture)

    before = target_px / _PLOT_PX
    _, before_px = drawn(before)
    factor = before * target_px / before_px
    pictures = []
    for _ in range(_MOST_DRAWINGS):
        picture, px = drawn(factor)
        pictures.append((abs(px - target_px), picture))
        if abs(px - target_px) <= 1 or px == before_px:
            break
        slope = (before - factor) / (before_px - px)
        before, before_px, factor = factor, px, factor + (target_px - px) * slope
    return min(pictures)[1]


def _scaled(spec: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return a specification with the widths of its plots multiplied."""
    for kind in ("hconcat", "vconcat", "concat"):
        if kind in spec:
            return {**spec, kind: [_scaled(child, factor) for child in spec[kind]]}
    if "spec" in spec:
        return {**spec, "spec": _scaled(spec["spec"], factor)}
    own = spec.get("width")
    width = round(factor * (own if isinstance(own, int | float) else _PLOT_PX))
    width = max(width, _LEAST_PLOT_PX)
    return break_axis_titles({**spec, "width": width}, width)


def _width_px(picture: str) -> float:
    return float(ElementTree.fromstring(picture).attrib["width"])

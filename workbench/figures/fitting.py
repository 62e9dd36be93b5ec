"""Scales plots until the whole picture, axes and legends included, is exactly one column wide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from workbench.errors import UserError
from workbench.figures.headings import headed
from workbench.figures.picture import Picture, draw
from workbench.figures.style import PX_PER_INCH, specification
from workbench.names import choose

if TYPE_CHECKING:
    from workbench.figures.style import Figure

COLUMNS: Final = {"single": 3.5, "double": 7.16}
"""Width in inches of a figure in one column, and across both, of an IEEE page."""

# Plots narrower than this show nothing; a chart that would need them does not fit the column.
_LEAST_PLOT_PX: Final = 24.0
_LEAST_COLUMNS: Final = 2
_LEGEND_COLUMNS: Final = (None, 4, 3, 2, 1)


def width_px(column: str = "double") -> float:
    """Width of a column in Vega's pixels: 336 for ``"single"``, 687.36 for ``"double"``."""
    return round(choose("column", column, COLUMNS) * PX_PER_INCH, 4)


def fitted(chart: Figure, column: str) -> Picture:
    """Draw `chart` one column wide; its legend wraps where it has to."""
    target = width_px(column)
    spec = headed(specification(chart), target)
    spec.pop("autosize", None)
    legend = spec["config"]["legend"]
    widest = legend.get("columns", _LEGEND_COLUMNS[1])
    for columns in _LEGEND_COLUMNS:
        if columns is not None:
            legend["columns"] = min(columns, widest)
        picture = _scaled(spec, target)
        if picture.width <= target:
            return picture.centred(target)
    if spec.get("columns", 0) > _LEAST_COLUMNS:  # three panels in a row become two, and one below
        below = spec | {"columns": _LEAST_COLUMNS, "resolve": _own_axes(spec)}
        return fitted(below, column)
    raise UserError(
        f"the chart needs at least {picture.width / PX_PER_INCH:.2f} in, more than the {column} "
        f"column's {COLUMNS[column]} in: shorten its labels or legend, or facet it into fewer "
        "columns" + ('; or take column "double"' if column == "single" else "")
    )


def _own_axes(spec: Mapping[str, Any]) -> dict[str, Any]:
    resolve = spec.get("resolve", {})
    return {**resolve, "axis": {**resolve.get("axis", {}), "x": "independent"}}


def _scaled(spec: dict[str, Any], target: float) -> Picture:
    """Scale the plots until the picture is `target` wide: secants in a bracket.

    Returns the widest picture found that is at most `target` wide; if there is none, the
    narrowest possible.
    """
    views = list(_views(spec))
    wishes = [_wish(view) for view in views]

    def drawn(factor: float) -> Picture:
        for view, wish in zip(views, wishes, strict=True):
            view["width"] = round(wish * factor, 3)
        return draw(spec)

    low, high = _LEAST_PLOT_PX / min(wishes), target / max(wishes)
    best: Picture | None = None
    before, before_width = high, drawn(high).width  # one plot alone fills the column: too wide
    factor = max(high * target / before_width, low)
    for attempt in range(16):
        picture = drawn(factor)
        width = picture.width
        if width > target and factor <= low:
            return picture
        if width <= target and (best is None or best.width < width):
            best = picture
        # Facets round every cell up to a pixel: after the secants, a few pixels are near enough.
        if best is not None and best.width > target - (0.01 if attempt < 3 else 5.0):
            break
        low, high = (factor, high) if width <= target else (low, factor)
        rise = (width - before_width) / (factor - before) if factor != before else 0.0
        guess = factor + (target - width) / rise if rise > 0 else low
        before, before_width = factor, width
        bisected = attempt > 2 and not low < guess < high
        factor = (low + high) / 2 if bisected else min(max(guess, low), high)
    return best or picture


def _views(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Find the dictionaries of `spec` that carry the width of a plot."""
    for kind in ("hconcat", "vconcat", "concat"):
        if kind in spec:
            for child in spec[kind]:
                yield from _views(child)
            return
    if "spec" in spec:
        yield from _views(spec["spec"])
    else:
        yield spec


def _wish(view: Mapping[str, Any]) -> float:
    width = view.get("width")
    return float(width) if isinstance(width, int | float) and width > 0 else 300.0

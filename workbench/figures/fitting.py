"""Scales plots until the whole picture, axes and legends included, is exactly one column wide.

A chart's title may be a list, ``title=["Accuracy and time", "LeNet-5 on MNIST", "one seed"]``: the
first says what is seen, the others the setting, in grey below it. Lines break where the column at
hand asks for it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from workbench.figures.picture import Picture, draw
from workbench.figures.style import PX_PER_INCH, specification
from workbench.utils.checks import UserError, choose

if TYPE_CHECKING:
    from workbench.figures.style import Figure

COLUMNS: Final = {"single": 3.5, "double": 7.16}
"""Width in inches of a figure in one column, and across both, of an IEEE page."""

# Plots narrower than this show nothing; a chart that would need them does not fit the column.
_LEAST_PLOT_PX: Final = 24.0
_LEAST_COLUMNS: Final = 2
_LEGEND_COLUMNS: Final = (None, 4, 3, 2, 1)

_TITLE_PX: Final = 5.9  # mean width of a character of 8 pt, bold
_AXIS_PX: Final = 5.3  # and of 8 pt
_SETTING_PX: Final = 4.9  # and of 7 pt
_APART_PX: Final = 14  # between plots: an axis's title may be so much wider than its own
_LABELS_PX: Final = 90  # of an axis, left of a view's own title
_BESIDE: Final = ("hconcat", "concat")
_BELOW: Final = ("vconcat", "layer")


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
    titled = [list(_titled(view)) for view in views]

    def drawn(factor: float) -> Picture:
        for view, wish, axes in zip(views, wishes, titled, strict=True):
            view["width"] = round(wish * factor, 3)
            for axis, title in axes:
                longest = int((view["width"] + _APART_PX) / _AXIS_PX)
                lines = textwrap.wrap(title, max(longest, 1), break_long_words=False)
                axis["title"] = lines if len(lines) > 1 else title
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


def _titled(view: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Find a plot's x-axes and their titles, which break where the plot is narrower."""
    axis = view.get("encoding", {}).get("x")
    if isinstance(axis, dict) and isinstance(title := axis.get("title"), str):
        yield axis, title
    for layer in view.get("layer", ()):
        yield from _titled(layer)


def _wish(view: Mapping[str, Any]) -> float:
    width = view.get("width")
    return float(width) if isinstance(width, int | float) and width > 0 else 300.0


def headed(spec: Mapping[str, Any], width_px: float) -> dict[str, Any]:
    """Return a specification whose titles that are lists fit a picture `width_px` wide.

    The whole picture's begins at its left edge, those of views in it above their plots.
    """
    whole = _headed(spec, width_px)
    if isinstance(spec.get("title"), list) and spec["title"]:
        whole["title"]["frame"] = "bounds"
    return whole


def _headed(spec: Mapping[str, Any], width_px: float) -> dict[str, Any]:
    view = dict(spec)
    title = view.get("title")
    if isinstance(title, list) and title:
        view["title"] = _heading(title, width_px)
    for kind in (*_BESIDE, *_BELOW):
        if kind in view:
            count = min(len(view[kind]), view.get("columns", len(view[kind])))
            share_px = width_px / count if kind in _BESIDE else width_px
            view[kind] = [_headed(child, share_px - _LABELS_PX) for child in view[kind]]
    return view


def _heading(lines: list[str], width_px: float) -> dict[str, Any]:
    heading: dict[str, Any] = {"text": textwrap.wrap(lines[0], int(width_px / _TITLE_PX))}
    if len(lines) > 1:
        heading["subtitle"] = textwrap.wrap(_joined(lines[1:]), int(width_px / _SETTING_PX))
    return heading


def _joined(parts: list[str]) -> str:
    return "; ".join(parts).replace("; (", " (")


def caption(spec: Mapping[str, Any]) -> str:
    """Return a chart's title and setting as one sentence; without a title, those of its views."""
    title = spec.get("title") or ""
    if isinstance(title, Mapping):  # its lines are broken already
        parts = [title.get("text", ""), title.get("subtitle", "")]
        title = [part if isinstance(part, str) else " ".join(part) for part in parts]
    said = _joined([part for part in ([title] if isinstance(title, str) else title) if part])
    if said:
        return said if said.endswith((".", "?", "!")) else f"{said}."
    views = [view for kind in (*_BESIDE, *_BELOW) for view in spec.get(kind, ())]
    views += [spec["spec"]] if "spec" in spec else []
    return " ".join(filter(None, map(caption, views)))

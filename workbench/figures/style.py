"""The one look of every figure: colours, altair's theme, and a specification with it inside."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from workbench.figures.data import with_data
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from altair.theme import ThemeConfig
    from altair.typing import ChartType

    Figure = ChartType | Mapping[str, Any]

PALETTE: Final = ("#17315f", "#e38b2c", "#8f2f3c", "#9dbfe6", "#2a7f74", "#f2dd9c")
"""Colours of categories, in order of use: dark and light take turns, and no two share a grey."""

DASHES: Final = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 1, 1, 1, 1, 1], [12, 3])
"""Dash patterns of lines, in pixels on and off: the second channel beside `PALETTE`."""

SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
"""Shapes of points: the second channel beside `PALETTE`."""

INK: Final = "#1a1a1a"
"""Colour of text and axes."""

_TEXT_PX: Final = 10.67  # 8 pt
_SMALL_PX: Final = 9.33  # 7 pt


def _text(label_px: float, title_px: float) -> dict[str, Any]:
    return {
        "labelColor": INK,
        "labelFontSize": label_px,
        "titleColor": INK,
        "titleFontSize": title_px,
        "titleFontWeight": "normal",
    }


CONFIG: Final[dict[str, Any]] = {
    "background": "white",
    # vl-convert measures with the first; a browser without it takes one of equal metrics.
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "padding": 2,
    "view": {
        "continuousWidth": 560,
        "continuousHeight": 170,
        "discreteWidth": 560,
        "discreteHeight": {"step": 20},
        "stroke": None,
    },
    "axis": {
        **_text(_SMALL_PX, _TEXT_PX),
        "domainColor": INK,
        "domainWidth": 0.75,
        "grid": True,
        "gridColor": "#dcdcdc",
        "gridWidth": 0.5,
        "labelPadding": 3,
        "tickColor": INK,
        "tickSize": 3,
        "tickWidth": 0.75,
        "titlePadding": 6,
    },
    "axisDiscrete": {"grid": False, "ticks": False, "labelPadding": 5, "zindex": 1},
    # Labels that would run together ("128256") are left out instead.
    "axisX": {
        "grid": False,
        "labelAngle": 0,
        "labelFlush": False,
        "labelSeparation": 6,
    },
    "axisYQuantitative": {"domain": False, "labelPadding": 6, "ticks": False, "tickCount": 5},
    "header": {
        **_text(_TEXT_PX, _TEXT_PX),
        "labelPadding": 4,
        "title": None,
    },
    "legend": {
        **_text(_SMALL_PX, _SMALL_PX),
        "columnPadding": 10,
        "labelLimit": 0,
        "layout": {"top": {"anchor": "start", "direction": "vertical"}},
        "offset": 6,
        "orient": "top",
        "symbolSize": 70,
        "symbolStrokeWidth": 1.5,
        "titleLimit": 0,
        "titleOrient": "left",
    },
    "title": {
        "anchor": "start",
        "color": INK,
        "fontSize": _TEXT_PX,
        "fontWeight": "bold",
        "frame": "group",
        "offset": 6,
        "subtitleColor": "#4d4d4d",
        "subtitleFontSize": _SMALL_PX,
    },
    "facet": {"spacing": 14},
    "concat": {"spacing": 14},
    "mark": {"color": PALETTE[0]},
    "bar": {"stroke": "white", "strokeWidth": 0.5},
    "line": {"strokeWidth": 1.5, "strokeJoin": "round"},
    "point": {"filled": True, "size": 34, "opacity": 1},
    "rule": {"color": INK, "strokeWidth": 0.75},
    "text": {"color": INK, "fontSize": _SMALL_PX},
    "range": {
        "category": list(PALETTE),
        "symbol": list(SHAPES),
        "ramp": {"scheme": "cividis"},
        "heatmap": {"scheme": "cividis"},
        "ordinal": {"scheme": "cividis"},
        "diverging": {"scheme": "blueorange"},
    },
}


def theme() -> None:
    """Register altair's theme ``workbench`` and enable it; again is harmless."""
    import altair as alt

    if "workbench" not in alt.theme.names():

        @alt.theme.register("workbench", enable=False)
        def workbench() -> ThemeConfig:
            return cast("ThemeConfig", {"config": copy.deepcopy(CONFIG)})

    if alt.theme.active != "workbench":
        alt.theme.enable("workbench")


def specification(chart: Figure) -> dict[str, Any]:
    """Vega-Lite specification with theme and data inside: what to store as ``*.vl.json``.

    A chart, from altair or a mapping, keeps its own configuration where it has one. Data in local
    files is read in, see `with_data`.
    """
    import altair as alt
    from altair.utils import update_nested

    if isinstance(chart, Mapping):
        spec = copy.deepcopy(dict(chart))
    else:
        with alt.theme.enable("none"), alt.data_transformers.enable("default", max_rows=None):
            spec = chart.to_dict()
    spec["config"] = update_nested(CONFIG, spec.get("config", {}), copy=True)
    return {"$schema": alt.SCHEMA_URL} | with_data(spec)


def series(field: str, order: Sequence[str], title: str | None = None) -> dict[str, Any]:
    """Encode a category of lines by colour, dash and shape at once: ``.encode(**series(...))``.

    For ``mark_line(point=True)``. The legend shows colour and shape, to be read in grey print, too.
    `order` lists the values of `field` for legend and palette, at most six (ValueError).
    """
    import altair as alt

    names = list(order)
    if len(names) > len(PALETTE):
        raise UserError(
            f"{len(names)} lines in one plot, but {len(PALETTE)} colours that can be told apart "
            "in print: show fewer, or facet"
        )

    def scale(values: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=names, range=list(values[: len(names)]))

    # Dashes around a symbol look torn. Vega-Lite merges legends of one domain, hiding all if one
    # is hidden: the nameless entry sets the dashes' domain apart.
    dashes = alt.Scale(domain=[*names, ""], range=[*DASHES[: len(names)], DASHES[0]])
    return {
        "color": alt.Color(field, type="nominal", scale=scale(PALETTE), title=title),
        "strokeDash": alt.StrokeDash(field, type="nominal", scale=dashes, legend=None),
        "shape": alt.Shape(field, type="nominal", scale=scale(SHAPES), title=title),
    }

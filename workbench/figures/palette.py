"""Colours, dashes and shapes that distinguish series, in grey print too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from workbench.errors import UserError

PALETTE: Final = ("#17315f", "#e38b2c", "#8f2f3c", "#9dbfe6", "#2a7f74", "#f2dd9c")
"""Colours of categories, in order of use: dark and light take turns, and no two share a grey."""

DASHES: Final = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 1, 1, 1, 1, 1], [12, 3])
"""Dash patterns of lines, in pixels on and off: the second channel beside `PALETTE`."""

SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
"""Shapes of points: the second channel beside `PALETTE`."""

INK: Final = "#1a1a1a"
"""Colour of text and axes."""


def series(field: str, order: Sequence[str], title: str | None = None) -> dict[str, Any]:
    """Encode a category of lines by colour, dash and shape at once: ``.encode(**series(...))``.

    For `mark_line(point=True)`. The legend shows colour and shape, which reads in grey print, too.
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

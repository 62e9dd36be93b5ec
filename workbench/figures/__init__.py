"""One look for every figure, and its export: theme, sizes, SVG, PDF and PNG.

A chart's author leaves the width out (or sets widths that are only proportions between the views of
a concatenation) and sets heights. Export scales the plots until the whole picture, axes and legends
included, is exactly one column wide; text keeps its size, so 8 pt stay 8 pt in print.

A pixel of Vega is a CSS pixel, 1/96 inch: a figure has the same size on screen and on paper.
"""

from workbench.figures.data import with_data
from workbench.figures.export import FORMATS, save, svg
from workbench.figures.fitting import COLUMNS, caption, headed, width_px
from workbench.figures.parts import stacked
from workbench.figures.style import (
    CONFIG,
    DASHES,
    INK,
    PALETTE,
    SHAPES,
    series,
    specification,
    theme,
)

__all__ = [
    "COLUMNS",
    "CONFIG",
    "DASHES",
    "FORMATS",
    "INK",
    "PALETTE",
    "SHAPES",
    "caption",
    "headed",
    "save",
    "series",
    "specification",
    "stacked",
    "svg",
    "theme",
    "width_px",
    "with_data",
]

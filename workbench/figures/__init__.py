"""One look for every figure, and its export: theme, sizes, SVG, PDF and PNG.

A chart's author leaves the width out (or sets widths that are only proportions between the views of
a concatenation) and sets heights. Export makes the plots so wide that the whole picture, axes and
legends included, fills a column; text keeps its size, so 8 pt stay 8 pt in print.
"""

from workbench.figures.data import with_data
from workbench.figures.export import COLUMNS, FORMATS, save, svg, width_px
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
from workbench.figures.titles import caption, headed

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

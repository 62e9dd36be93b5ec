"""Export of a chart: SVG, PDF and PNG, byte for byte the same each time."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

from workbench.figures import fonts
from workbench.figures.fitting import fitted
from workbench.figures.style import PX_PER_INCH
from workbench.utils import files
from workbench.utils.checks import choose

if TYPE_CHECKING:
    from workbench.figures.picture import Picture
    from workbench.figures.style import Figure

PNG_DPI: Final = 300


def svg(chart: Figure, column: str = "double") -> str:
    """Draw `chart` as SVG, exactly one column wide, its fonts embedded.

    `chart` is an altair chart (single, layered, faceted or concatenated) or its specification,
    `column` ``"single"`` (3.5 in) or ``"double"`` (7.16 in). Labels and legends that leave no room
    for the plots are a ValueError.
    """
    return to_svg(fitted(chart, column)).decode()


def save(chart: Figure, path: Path | str, column: str = "double") -> Path:
    """Write `chart` to `path`, whole or not at all; the same chart gives the same bytes.

    Parent folders are made. The suffix of `path` is ``.svg``, ``.pdf`` or ``.png`` (300 dpi);
    another is an UnknownNameError. Else as `svg`. Returns `path`.
    """
    target = files.expanded(path)
    render = choose("figure format", target.suffix.removeprefix(".").lower(), _RENDERERS)
    files.write_bytes(target, render(fitted(chart, column)))
    return target


def to_svg(picture: Picture) -> bytes:
    """Write a picture as SVG in inches, its fonts embedded."""
    return fonts.embedded(picture.svg(1 / PX_PER_INCH, "in")).encode()


def to_pdf(picture: Picture) -> bytes:
    """Write a picture as PDF, its objects in the order in which the catalogue references them.

    vl-convert keeps resources in hash tables and so writes the same page in several orders.
    """
    import pikepdf
    import vl_convert

    ordered = io.BytesIO()
    with pikepdf.open(io.BytesIO(vl_convert.svg_to_pdf(_in_points(picture)))) as document:
        document.save(ordered, deterministic_id=True)
    return ordered.getvalue()


def to_png(picture: Picture) -> bytes:
    """Write a picture as PNG at 300 dpi."""
    import vl_convert

    return vl_convert.svg_to_png(_in_points(picture), scale=1, ppi=PNG_DPI)


def _in_points(picture: Picture) -> str:
    # vl-convert takes a unit of the SVG for a point, 1/72 inch, whatever the resolution.
    return picture.svg(72 / PX_PER_INCH)


_RENDERERS: Final = {"svg": to_svg, "pdf": to_pdf, "png": to_png}

FORMATS: Final = tuple(_RENDERERS)
"""What `save` writes."""

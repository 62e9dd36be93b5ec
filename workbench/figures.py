"""One look for every figure, and its way into a file: theme, sizes, SVG, PDF and PNG.

A chart's author leaves the width alone (or gives widths that only set proportions between the
views of a concatenation) and sets heights. On the way into a file the plots are widened or
narrowed until the whole picture, axes and legends included, is exactly one column wide; text
keeps its size, so 8 pt stay 8 pt in print.

A pixel of Vega is a CSS pixel, 1/96 inch: a figure has the same size on screen and on paper.

vl-convert draws with Liberation Sans, which it carries inside, so the machine's own fonts play
no part. It embeds the font's subset in PDF; here that subset is also put into the SVG.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from workbench import atomic
from workbench.names import check_name, choose

if TYPE_CHECKING:
    import altair as alt
    from altair.theme import ThemeConfig
    from altair.typing import ChartType
    from IPython.display import SVG

    Figure = ChartType | Mapping[str, Any]

COLUMNS: Final = {"single": 3.5, "double": 7.16}
"""Width in inches of a figure in one column, and across both, of an IEEE page."""

FORMATS: Final = ("svg", "pdf", "png")
"""What `save` and `export` write."""

PALETTE: Final = ("#17315f", "#e38b2c", "#8f2f3c", "#9dbfe6", "#2a7f74", "#f2dd9c")
"""Colours of categories, in order of use: dark and light take turns, and no two share a grey."""

DASHES: Final = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 1, 1, 1, 1, 1], [12, 3])
"""Dash patterns of lines, in pixels on and off: the second channel beside `PALETTE`."""

SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
"""Shapes of points: the second channel beside `PALETTE`."""

PNG_DPI: Final = 300

INK: Final = "#1a1a1a"
"""Colour of text and axes."""

FONT: Final = "Liberation Sans"
# A browser without it takes one of equal metrics.
_FAMILIES: Final = f"{FONT}, Arial, Helvetica, sans-serif"

_PX_PER_INCH: Final = 96
_PX_PER_PT: Final = 96 / 72
_TEXT_PX: Final = round(8 * _PX_PER_PT, 2)
_SMALL_PX: Final = round(7 * _PX_PER_PT, 2)
_GRID: Final = "#dcdcdc"

_CONFIG: Final[dict[str, Any]] = {
    "background": "white",
    "font": _FAMILIES,
    "padding": 2,
    "view": {
        "continuousWidth": 560,
        "continuousHeight": 170,
        "discreteWidth": 560,
        "discreteHeight": {"step": 20},
        "stroke": None,
    },
    "axis": {
        "domainColor": INK,
        "domainWidth": 0.75,
        "grid": True,
        "gridColor": _GRID,
        "gridWidth": 0.5,
        "labelColor": INK,
        "labelFontSize": _SMALL_PX,
        "labelPadding": 3,
        "tickColor": INK,
        "tickSize": 3,
        "tickWidth": 0.75,
        "titleColor": INK,
        "titleFontSize": _TEXT_PX,
        "titleFontWeight": "normal",
        "titlePadding": 6,
    },
    "axisDiscrete": {"grid": False, "ticks": False, "labelPadding": 5, "zindex": 1},
    "axisX": {"grid": False, "labelAngle": 0, "labelFlush": False},
    "axisYQuantitative": {"domain": False, "labelPadding": 6, "ticks": False, "tickCount": 5},
    "header": {
        "labelColor": INK,
        "labelFontSize": _TEXT_PX,
        "labelPadding": 4,
        "title": None,
        "titleColor": INK,
        "titleFontSize": _TEXT_PX,
        "titleFontWeight": "normal",
    },
    "legend": {
        "columnPadding": 10,
        "labelColor": INK,
        "labelFontSize": _SMALL_PX,
        "labelLimit": 0,
        "layout": {"top": {"anchor": "start", "direction": "vertical"}},
        "offset": 6,
        "orient": "top",
        "symbolSize": 70,
        "symbolStrokeWidth": 1.5,
        "titleColor": INK,
        "titleFontSize": _SMALL_PX,
        "titleFontWeight": "normal",
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

# Widths below this show nothing; a chart that would need them does not fit the column.
_LEAST_PLOT_PX: Final = 24.0
_LEGEND_COLUMNS: Final = (None, 4, 3, 2, 1)


def width_px(column: str = "double") -> float:
    """Width of a column in Vega's pixels: 336 for ``"single"``, 687.36 for ``"double"``.

    Raises
    ------
    UnknownNameError
        `column` is neither.
    """
    return round(choose("column", column, COLUMNS) * _PX_PER_INCH, 4)


def theme() -> None:
    """Register altair's theme ``workbench`` and enable it; again is harmless."""
    import altair as alt

    if "workbench" not in alt.theme.names():

        @alt.theme.register("workbench", enable=False)
        def workbench() -> ThemeConfig:
            return cast("ThemeConfig", {"config": copy.deepcopy(_CONFIG)})

    if alt.theme.active != "workbench":
        alt.theme.enable("workbench")


def series(field: str, order: Sequence[str], title: str | None = None) -> dict[str, Any]:
    """Encode a category of lines by colour, dash and shape at once: ``.encode(**series(...))``.

    For `mark_line(point=True)`. The legend shows colour and shape, which reads in grey print, too.

    Parameters
    ----------
    field
        The column that names the line.
    order
        Its values, in the order of legend and palette; at most six.
    title
        Heading of the legend; None for none.

    Raises
    ------
    ValueError
        More values than the palette has colours.
    """
    import altair as alt

    names = list(order)
    if len(names) > len(PALETTE):
        raise ValueError(
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


def specification(chart: Figure) -> dict[str, Any]:
    """Vega-Lite specification of `chart` with the theme inside: what to store as ``*.vl.json``.

    Parameters
    ----------
    chart
        An altair chart, or a specification as a mapping; its own configuration wins.
    """
    if isinstance(chart, Mapping):
        spec = copy.deepcopy(dict(chart))
    else:
        import altair as alt

        before = alt.theme.active
        theme()
        try:
            with alt.data_transformers.enable("default", max_rows=None):
                spec = chart.to_dict()
        finally:
            alt.theme.enable(before)
    spec["config"] = _merged(_CONFIG, spec.get("config", {}))
    return spec


def svg(chart: Figure, column: str = "double") -> str:
    """Draw `chart` as SVG, exactly one column wide, its fonts embedded.

    Parameters
    ----------
    chart
        An altair chart (single, layered, faceted or concatenated) or its specification.
    column
        ``"single"`` (3.5 in) or ``"double"`` (7.16 in).

    Raises
    ------
    UnknownNameError
        No such column.
    ValueError
        Labels and legends leave no room for the plots in this column.
    """
    return _with_fonts(_sized(_drawn(chart, column), "in", 1 / _PX_PER_INCH))


def embedded(chart: Figure, column: str = "double") -> SVG:
    """Show `chart` in a notebook as a still picture: no JavaScript, no network."""
    from IPython.display import SVG

    picture: SVG = SVG(data=svg(chart, column))  # type: ignore[no-untyped-call]
    return picture


def save(
    chart: Figure, path: Path | str, column: str = "double", format: str | None = None
) -> Path:
    """Write `chart` to `path`, whole or not at all; the same chart gives the same bytes.

    Parameters
    ----------
    chart, column
        See `svg`.
    path
        Where to; parent folders are made.
    format
        ``"svg"``, ``"pdf"`` or ``"png"`` (300 dpi); by default what `path` ends in.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    UnknownNameError
        No such format or column.
    """
    target = Path(path)
    given = target.suffix.removeprefix(".").lower() if format is None else format
    render = choose("figure format", given, _RENDERERS)
    atomic.write_bytes(target, render(chart, column))
    return target


def export(specs: Iterable[Path], output: Path, format: str, column: str) -> list[Path]:
    """Render stored specifications (``NAME.vl.json``) to ``output/NAME.FORMAT``.

    Parameters
    ----------
    specs
        Files that hold what `specification` returned.
    output
        Folder for the pictures; made if missing.
    format, column
        See `save` and `svg`.

    Returns
    -------
    list of Path
        The files written, in the order of `specs`.

    Raises
    ------
    UnknownNameError
        No such format or column; nothing was written.
    ValueError
        A file holds no specification, or its chart does not fit the column.
    """
    check_name("figure format", format, FORMATS)
    check_name("column", column, COLUMNS)
    written = []
    for source in specs:
        try:
            spec = json.loads(source.read_text())
        except json.JSONDecodeError as error:
            raise ValueError(f"{source} is not a Vega-Lite specification: {error}") from error
        if not isinstance(spec, dict):
            raise ValueError(f"{source} is not a Vega-Lite specification: no JSON object")
        name = source.name.removesuffix(".json").removesuffix(".vl")
        try:
            written.append(save(spec, output / f"{name}.{format}", column, format))
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from error
    return written


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(dict(base))
    for key, value in over.items():
        mine = merged.get(key)
        if isinstance(mine, dict) and isinstance(value, Mapping):
            merged[key] = _merged(mine, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def _svg_bytes(chart: Figure, column: str) -> bytes:
    return svg(chart, column).encode()


def _pdf_bytes(chart: Figure, column: str) -> bytes:
    import vl_convert

    points = _sized(_drawn(chart, column), "", 1 / _PX_PER_PT)
    return _canonical_pdf(vl_convert.svg_to_pdf(points))


def _png_bytes(chart: Figure, column: str) -> bytes:
    import vl_convert

    # vl-convert takes a unit of the SVG for a point, 1/72 inch, whatever the resolution.
    points = _sized(_drawn(chart, column), "", 1 / _PX_PER_PT)
    return vl_convert.svg_to_png(points, scale=1, ppi=PNG_DPI)


_RENDERERS: Final = {"svg": _svg_bytes, "pdf": _pdf_bytes, "png": _png_bytes}


# ---- fitting a picture to a column ---------------------------------------------------------


class _Drawn(NamedTuple):
    """An SVG in pixels: its elements without the root, and the window that shows them."""

    body: str
    left: float
    width: float
    height: float
    paper: str


_ROOT: Final = re.compile(
    r'<svg [^>]*? width="(?P<width>[\d.]+)" height="(?P<height>[\d.]+)"[^>]*>'
    r'<rect width="[\d.]+" height="[\d.]+" fill="(?P<paper>[^"]+)"/>'
    r"(?P<body>.*)</svg>\s*",
    re.DOTALL,
)


def _drawn(chart: Figure, column: str) -> _Drawn:
    """Draw `chart` with plots scaled so that the picture fills the column."""
    target = width_px(column)
    spec = specification(chart)
    spec.pop("autosize", None)
    least = target
    for columns in _LEGEND_COLUMNS:
        if columns is not None:
            legend = spec["config"]["legend"]
            legend["columns"] = min(columns, legend.get("columns", columns))
        picture, width = _fitted(spec, target)
        if picture is not None:
            slack = target - width
            return _Drawn(
                _renamed(picture["body"]),
                -slack / 2,
                target,
                float(picture["height"]),
                picture["paper"],
            )
        least = width
    raise ValueError(
        f"the chart needs at least {least / _PX_PER_INCH:.2f} in, more than the {column} column's "
        f"{COLUMNS[column]} in: shorten its labels or legend, or facet it into fewer columns"
        + ('; or take column "double"' if column == "single" else "")
    )


def _fitted(spec: dict[str, Any], target: float) -> tuple[re.Match[str] | None, float]:
    """Scale the plots until the picture is `target` wide: secants in a bracket.

    Returns the widest picture found that is at most `target` wide, and its width; or None and
    the least width that was possible.
    """
    views = list(_views(spec))
    wishes = [_wish(view) for view in views]

    def draw(factor: float) -> tuple[re.Match[str], float]:
        for view, wish in zip(views, wishes, strict=True):
            view["width"] = round(wish * factor, 3)
        picture = _vega(spec)
        return picture, float(picture["width"])

    low, high = _LEAST_PLOT_PX / min(wishes), target / max(wishes)
    best, best_width = None, 0.0
    before, before_width = high, draw(high)[1]  # one plot alone fills the column: too wide
    factor = max(high * target / before_width, low)
    for attempt in range(16):
        picture, width = draw(factor)
        if width > target and factor <= low:
            return None, width
        if best_width < width <= target:
            best, best_width = picture, width
        # Facets round every cell up to a pixel: after the secants, a few pixels are near enough.
        if best_width > target - (0.01 if attempt < 3 else 5.0):
            break
        low, high = (factor, high) if width <= target else (low, factor)
        rise = (width - before_width) / (factor - before) if factor != before else 0.0
        guess = factor + (target - width) / rise if rise > 0 else low
        before, before_width = factor, width
        bisected = attempt > 2 and not low < guess < high
        factor = (low + high) / 2 if bisected else min(max(guess, low), high)
    return best, best_width


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


def _vega(spec: Mapping[str, Any]) -> re.Match[str]:
    import vl_convert

    picture = _ROOT.fullmatch(vl_convert.vegalite_to_svg(dict(spec)))
    if picture is None:
        raise RuntimeError("vl-convert wrote an SVG of unknown form: install the locked version")
    return picture


def _renamed(body: str) -> str:
    """Name elements after the picture's content.

    Vega counts its clip paths up as long as the process lives, and two pictures on one page
    must not share a name.
    """
    order = {name: n for n, name in enumerate(dict.fromkeys(re.findall(r' id="([^"]+)"', body)))}
    if not order:
        return body
    names = re.compile(
        r'(?<= id=")(?:{0})(?=")|(?<=url\(#)(?:{0})(?=\))|(?<=href="#)(?:{0})(?=")'.format(
            "|".join(map(re.escape, order))
        )
    )
    plain = names.sub(lambda match: f"{order[match[0]]}", body)
    digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
    return names.sub(lambda match: f"wb{digest}-{order[match[0]]}", body)


def _sized(drawn: _Drawn, unit: str, per_px: float) -> str:
    width, height = round(drawn.width * per_px, 4), round(drawn.height * per_px, 4)
    window = f"{drawn.left:.6g} 0 {drawn.width:.10g} {drawn.height:.10g}"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'version="1.1" class="marks" width="{width:.10g}{unit}" height="{height:.10g}{unit}" '
        f'viewBox="{window}"><rect x="{drawn.left:.6g}" width="{drawn.width:.10g}" '
        f'height="{drawn.height:.10g}" fill="{drawn.paper}"/>{drawn.body}</svg>\n'
    )


# ---- fonts in the SVG ----------------------------------------------------------------------

_FACES: Final = {
    ("normal", "normal"): "LiberationSans",
    ("bold", "normal"): "LiberationSans-Bold",
    ("normal", "italic"): "LiberationSans-Italic",
    ("bold", "italic"): "LiberationSans-BoldItalic",
}


def _with_fonts(picture: str) -> str:
    """Embed in an SVG the glyphs it uses, as a TrueType font a face; text remains text."""
    used: dict[tuple[str, str], set[str]] = {}
    for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):
        if element.get("font-family") == _FAMILIES:
            face = (_weight(element.get("font-weight")), element.get("font-style", "normal"))
            used.setdefault(face, set()).update("".join(element.itertext()))
    faces = []
    for (weight, style), characters in sorted(used.items()):
        font = _font("".join(sorted(characters)), weight, style)
        data = base64.b64encode(font).decode()
        faces.append(
            f"font-weight:{weight};font-style:{style};"
            f'src:url(data:font/ttf;base64,{data}) format("truetype")'
        )
    # The family bears the content's name: on a page of many pictures none takes another's subset.
    family = "workbench-" + hashlib.sha256("".join(faces).encode()).hexdigest()[:8]
    style_sheet = "".join(f'@font-face{{font-family:"{family}";{face}}}' for face in faces)
    root_end = picture.index(">") + 1
    body = picture[root_end:].replace(
        f'font-family="{_FAMILIES}"', f'font-family="{family}, {_FAMILIES}"'
    )
    return f"{picture[:root_end]}<style>{style_sheet}</style>{body}"


def _weight(given: str | None) -> str:
    return "bold" if given in {"bold", "bolder", "600", "700", "800", "900"} else "normal"


def _font(characters: str, weight: str, style: str) -> bytes:
    """TrueType font of `characters`, cut from the one that vl-convert carries.

    vl-convert gives no font away, but a PDF it writes embeds the glyphs used. A page with every
    character in an element of its own yields the subset (side by side *f* and *i* would merge to a
    ligature; a space alone would be dropped, so it stands between points);
    what PDF leaves out, the tables that a browser needs to find a glyph, is added.
    """
    import vl_convert

    page = "".join(
        f'<text y="9" font-family="{FONT}" font-weight="{weight}" font-style="{style}" '
        f'xml:space="preserve">{escape(f".{character}." if character.isspace() else character)}'
        "</text>"
        for character in characters
    )
    pdf = vl_convert.svg_to_pdf(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{page}</svg>'
    )
    objects = _pdf_objects(pdf)
    face = _FACES[weight, style].encode()
    for head, _ in objects.values():
        name = re.search(rb"/BaseFont /[A-Z]{6}\+([\w-]+)", head)
        if b"/Subtype /Type0" in head and name is not None and name[1] == face:
            # A Type0 font refers to its descendant, that to its descriptor, that to the file.
            descendant = objects[_reference(head, b"DescendantFonts")][0]
            descriptor = objects[_reference(descendant, b"FontDescriptor")][0]
            font = _inflated(objects[_reference(descriptor, b"FontFile2")])
            to_unicode = _inflated(objects[_reference(head, b"ToUnicode")])
            return _findable(font, _glyphs(to_unicode, characters), bold=weight == "bold")
    raise RuntimeError(f"vl-convert did not draw with {FONT}: install the locked version")


def _glyphs(to_unicode: bytes, characters: str) -> dict[int, int]:
    """Code point -> glyph, from a PDF's glyph -> code point.

    Characters that look alike (a no-break space, a micro sign) share a glyph, and the PDF names
    only one of them.
    """
    glyph_of = {
        bytes.fromhex(code.decode()).decode("utf-16-be"): int(glyph, 16)
        for glyph, code in re.findall(rb"<([0-9A-F]{4})> <([0-9A-F]+)>\n", to_unicode)
        if glyph + code != b"0000FFFF"
    }
    alike = {unicodedata.normalize("NFKC", text): glyph for text, glyph in glyph_of.items()}
    found = {
        ord(character): glyph_of.get(
            character, alike.get(unicodedata.normalize("NFKC", character), 0)
        )
        for character in characters
    }
    return {point: glyph for point, glyph in sorted(found.items()) if glyph}


def _findable(font: bytes, glyphs: Mapping[int, int], *, bold: bool) -> bytes:
    """Add the tables ``cmap`` and ``OS/2`` to a TrueType font (OpenType 1.9, formats 12 and 3)."""
    (count,) = struct.unpack_from(">H", font, 4)
    tables: dict[bytes, bytes] = {}
    for entry in range(count):
        tag, _, offset, length = struct.unpack_from(">4sLLL", font, 12 + 16 * entry)
        tables[tag] = font[offset : offset + length]
    groups = b"".join(struct.pack(">LLL", point, point, glyph) for point, glyph in glyphs.items())
    tables[b"cmap"] = (
        struct.pack(">HHHHL", 0, 1, 3, 10, 12)
        + struct.pack(">HHLLL", 12, 0, 16 + len(groups), 0, len(glyphs))
        + groups
    )
    ascent, descent, line_gap = struct.unpack_from(">hhh", tables[b"hhea"], 4)
    points = [min(point, 0xFFFF) for point in glyphs] or [0]
    tables[b"OS/2"] = struct.pack(
        ">HhHHH10hh10s4L4sHHHhhhHH2LhhHHH",
        *(3, 1000, 700 if bold else 400, 5, 0),
        *(1434, 1331, 0, 287, 1434, 1331, 0, 977, 102, 530, 0),
        *(bytes(10), 0, 0, 0, 0, b"    ", 0x20 if bold else 0x40, min(points), max(points)),
        *(ascent, descent, line_gap, ascent, -descent, 1, 0, 1082, 1409, 0, 32, 1),
    )
    return _sfnt(tables)


def _sfnt(tables: Mapping[bytes, bytes]) -> bytes:
    """Put the tables of a TrueType font together, checksums and all."""

    def checksum(data: bytes) -> int:
        padded = data + bytes(-len(data) % 4)
        words: tuple[int, ...] = struct.unpack(f">{len(padded) // 4}L", padded)
        return sum(words) & 0xFFFFFFFF

    head = tables[b"head"]
    tables = dict(sorted({**tables, b"head": head[:8] + bytes(4) + head[12:]}.items()))
    power = len(tables).bit_length() - 1
    directory = struct.pack(
        ">LHHHH", 0x10000, len(tables), 16 << power, power, 16 * len(tables) - (16 << power)
    )
    offset = 12 + 16 * len(tables)
    head_at, body = 0, b""
    for tag, data in tables.items():
        directory += struct.pack(">4sLLL", tag, checksum(data), offset + len(body), len(data))
        if tag == b"head":
            head_at = offset + len(body)
        body += data + bytes(-len(data) % 4)
    font = directory + body
    adjustment = struct.pack(">L", (0xB1B0AFBA - checksum(font)) & 0xFFFFFFFF)
    return font[: head_at + 8] + adjustment + font[head_at + 12 :]


# ---- the PDF, byte for byte ----------------------------------------------------------------


def _pdf_objects(pdf: bytes) -> dict[int, tuple[bytes, bytes]]:
    """Objects of a PDF with a plain cross-reference table: number -> (head, stream and end)."""
    trailer = re.search(rb"startxref\s+(\d+)\s+%%EOF\s*$", pdf)
    if trailer is None:
        raise RuntimeError("vl-convert wrote a PDF of unknown form: install the locked version")
    table_at = int(trailer[1])
    entries = re.findall(rb"(\d{10}) \d{5} ([nf])", pdf[table_at:])
    starts = {n: int(at) for n, (at, kind) in enumerate(entries) if kind == b"n"}
    ends = [*sorted(starts.values()), table_at]
    objects = {}
    for number, start in starts.items():
        text = pdf[start : ends[ends.index(start) + 1]]
        _, _, text = text.partition(b"obj\n")
        head, mark, stream = text.rstrip().partition(b"\nstream\n")
        objects[number] = (head, mark + stream) if mark else (head.removesuffix(b"endobj"), b"")
    return objects


def _reference(head: bytes, key: bytes) -> int:
    found = re.search(rb"/" + key + rb" \[?(\d+) 0 R", head)
    if found is None:
        raise RuntimeError(f"vl-convert wrote a PDF without /{key.decode()}")
    return int(found[1])


def _inflated(entry: tuple[bytes, bytes]) -> bytes:
    head, tail = entry
    (length,) = re.findall(rb"/Length (\d+)", head)
    data = tail.removeprefix(b"\nstream\n")[: int(length)]
    return zlib.decompress(data) if b"/FlateDecode" in head else data


def _canonical_pdf(pdf: bytes) -> bytes:
    """Write a PDF's objects in the order in which its catalogue leads to them.

    vl-convert keeps resources in hash tables and so writes the same page in several orders.
    """
    objects = _pdf_objects(pdf)
    resources = re.compile(rb"(?<=<<\n)(?:[ ]*/\w+ \d+ 0 R\n){2,}(?=[ ]*>>)")
    for number, (head, tail) in objects.items():
        ordered = resources.sub(
            lambda block: b"".join(sorted(block[0].splitlines(keepends=True))), head
        )
        objects[number] = (ordered, tail)
    trailer = pdf[pdf.rindex(b"trailer") :]
    queue = [_reference(trailer, b"Root"), _reference(trailer, b"Info")]
    number_of: dict[int, int] = {}
    while queue:
        old = queue.pop(0)
        if old not in number_of:
            number_of[old] = len(number_of) + 1
            queue += [int(n) for n in re.findall(rb"(\d+) 0 R", objects[old][0])]

    def renumber(text: bytes) -> bytes:
        return re.sub(rb"(\d+)(?= 0 R)", lambda n: b"%d" % number_of[int(n[1])], text)

    out = bytearray(pdf[: pdf.index(b"\n\n") + 2])
    offsets = []
    for old, number in number_of.items():
        head, tail = objects[old]
        offsets.append(len(out))
        out += b"%d 0 obj\n%b%b\n\n" % (number, renumber(head), tail or b"endobj")
    table_at = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f\r\n" % (len(offsets) + 1)
    out += b"".join(b"%010d 00000 n\r\n" % offset for offset in offsets)
    size = len(offsets) + 1
    out += b"trailer\n<<\n  /Size %d\n  /Root %d 0 R\n  /Info %d 0 R\n>>\n" % (
        size,
        number_of[_reference(trailer, b"Root")],
        number_of[_reference(trailer, b"Info")],
    )
    out += b"startxref\n%d\n%%%%EOF\n" % table_at
    return bytes(out)

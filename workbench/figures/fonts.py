"""Liberation Sans inside an SVG: the glyphs it uses, one TrueType font per face.

vl-convert measures and draws text with Liberation Sans, which it carries inside, and embeds it in
PDF itself. An SVG only names its font, and a reader's machine need not have it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import mmap
import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

# A browser without the font takes one of equal metrics.
FAMILIES: Final = "Liberation Sans, Arial, Helvetica, sans-serif"

_FACES: Final = {
    ("normal", "normal"): "LiberationSans",
    ("bold", "normal"): "LiberationSans-Bold",
    ("normal", "italic"): "LiberationSans-Italic",
    ("bold", "italic"): "LiberationSans-BoldItalic",
}

# The head of a TrueType file of 16 to 31 tables (OpenType 1.9, "Table directory"), of which the
# first is the time stamp of FontForge, with which Liberation Sans is made.
_FILE_HEAD: Final = re.compile(
    rb"\x00\x01\x00\x00\x00[\x10-\x1f]\x01\x00\x00\x04\x00[\x00-\xff]FFTM"
)
_LARGEST_FILE_BYTES: Final = 1 << 20
# Latin, Greek, and punctuation to mathematical operators.
_COMMON: Final = frozenset(
    map(chr, (*range(0x20, 0x180), *range(0x370, 0x400), *range(0x2000, 0x2300)))
)


def embedded(picture: str) -> str:
    """Embed in an SVG of Vega the glyphs that it uses; text remains text."""
    used: dict[tuple[str, str], set[str]] = {}
    for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):
        if element.get("font-family") == FAMILIES:
            face = (_weight(element.get("font-weight")), element.get("font-style", "normal"))
            used.setdefault(face, set()).update("".join(element.itertext()))
    faces = []
    for (weight, style), characters in sorted(used.items()):
        data = base64.b64encode(_subset(_FACES[weight, style], characters)).decode()
        faces.append(
            f"font-weight:{weight};font-style:{style};"
            f'src:url(data:font/ttf;base64,{data}) format("truetype")'
        )
    # The family bears the content's name: on a page of many pictures none takes another's subset.
    family = "workbench-" + hashlib.sha256("".join(faces).encode()).hexdigest()[:8]
    style_sheet = "".join(f'@font-face{{font-family:"{family}";{face}}}' for face in faces)
    root_end = picture.index(">") + 1
    body = picture[root_end:].replace(
        f'font-family="{FAMILIES}"', f'font-family="{family}, {FAMILIES}"'
    )
    return f"{picture[:root_end]}<style>{style_sheet}</style>{body}"


def _weight(weight: str | None) -> str:
    return "bold" if weight in {"bold", "bolder", "600", "700", "800", "900"} else "normal"


def _subset(face: str, characters: set[str]) -> bytes:
    """Return the face with these characters alone."""
    return _reduced(_common(face) if characters <= _COMMON else _files()[face], characters)


@functools.cache
def _common(face: str) -> bytes:
    """Return the face with common characters alone: parsing all takes longer than a drawing."""
    return _reduced(_files()[face], _COMMON)


def _reduced(face: bytes, characters: set[str] | frozenset[str]) -> bytes:
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    # Kerning stays, since vl-convert measured and drew with it. Hints would triple the size.
    options = Options(hinting=False)
    options.drop_tables += ["FFTM"]
    subsetter = Subsetter(options)
    subsetter.populate(text="".join(characters))
    font = TTFont(io.BytesIO(face), recalcTimestamp=False)
    subsetter.subset(font)
    written = io.BytesIO()
    font.save(written)
    return written.getvalue()


@functools.cache
def _files() -> dict[str, bytes]:
    """Find the font's files, by PostScript name, in vl-convert's library, which holds them as is.

    Its interface does not return them, and a machine's own copy may differ from what was measured.
    """
    import vl_convert.vl_convert as compiled
    from fontTools.ttLib import TTFont

    with (
        Path(compiled.__file__).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library,
    ):
        starts = [head.start() for head in _FILE_HEAD.finditer(library)]
        files = [library[start : start + _LARGEST_FILE_BYTES] for start in starts]
    faces = {TTFont(io.BytesIO(data))["name"].getDebugName(6): data for data in files}
    if missing := set(_FACES.values()) - set(faces):
        raise RuntimeError(
            f"vl-convert carries no {', '.join(sorted(missing))}: install the locked version"
        )
    return faces

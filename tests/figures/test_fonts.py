import base64
import io
import re
from xml.etree import ElementTree

import pikepdf
import pytest
from fontTools.ttLib import TTFont

from tests.figures.examples import bars
from workbench import figures
from workbench.figures import fonts
from workbench.figures.export import to_pdf
from workbench.figures.fitting import fitted

SVG = "{http://www.w3.org/2000/svg}"


def characters_of(data: bytes) -> set[str]:
    font = TTFont(io.BytesIO(data), checkChecksums=2)
    tables = {"glyf", "loca", "head", "hhea", "hmtx", "maxp", "OS/2", "name"}
    assert tables <= set(font.keys())
    glyph_of = font.getBestCmap()
    assert all(font.getGlyphID(glyph) > 0 for glyph in glyph_of.values())
    return set(map(chr, glyph_of))


def test_svg_embeds_every_character_it_shows() -> None:
    picture = figures.svg(bars().properties(title="fit, Δ ≤ 5 µs − no\u00a0break: office"))
    root = ElementTree.fromstring(picture)
    style = root.findtext(f"{SVG}style") or ""
    faces = {
        (weight, family): characters_of(base64.b64decode(data))
        for family, weight, data in re.findall(
            r'family:"([^"]+)";font-weight:(\w+);[^}]*base64,([^)]+)\)', style
        )
    }
    assert {weight for weight, _ in faces} == {"normal", "bold"}
    texts = list(root.iter(f"{SVG}text"))
    assert len(texts) > 8
    for text in texts:
        family, *fallbacks = (text.get("font-family") or "").split(", ")
        assert fallbacks == ["Liberation Sans", "Arial", "Helvetica", "sans-serif"]
        assert set(text.text or "") <= faces[text.get("font-weight") or "normal", family]


@pytest.mark.parametrize("face", ["LiberationSans", "LiberationSans-BoldItalic"])
@pytest.mark.parametrize("text", ["AVAT office", "fit, Δ ≤ 5 µs − no\u00a0break", "Ж, Latin"])
def test_face_reduced_to_common_characters_first_gives_the_same_bytes(face: str, text: str) -> None:
    characters = set(text)
    assert fonts._subset(face, characters) == fonts._reduced(fonts._files()[face], characters)


def test_pdf_embeds_every_font() -> None:
    with pikepdf.open(io.BytesIO(to_pdf(fitted(bars(), "double")))) as pdf:
        assert pdf.check_pdf_syntax() == []
        embedded = [
            one
            for one in pdf.objects
            if isinstance(one, pikepdf.Dictionary) and one.get("/Type") == "/Font"
        ]
        kinds = [str(font.Subtype) for font in embedded]
        assert sorted(kinds) == ["/CIDFontType2"] * 2 + ["/Type0"] * 2
        for font, kind in zip(embedded, kinds, strict=True):
            assert re.match(r"/[A-Z]{6}\+LiberationSans", str(font.BaseFont))
            if kind == "/CIDFontType2":
                assert font.FontDescriptor.FontFile2.read_bytes()[:4] == b"\0\1\0\0"

"""A chart as vl-convert draws it: an SVG in Vega's pixels, parsed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_ROOT: Final = re.compile(
    r'<svg [^>]*? width="(?P<width>[\d.]+)" height="(?P<height>[\d.]+)"[^>]*>'
    r'<rect width="[\d.]+" height="[\d.]+" fill="(?P<paper>[^"]+)"/>'
    r"(?P<body>.*)</svg>\s*",
    re.DOTALL,
)


class Picture(NamedTuple):
    """An SVG in pixels: its elements without the root, and the window that shows them."""

    body: str
    width: float
    height: float
    paper: str
    left: float = 0.0

    def centred(self, width: float) -> Picture:
        """Return the picture in the middle of a window of this width."""
        return self._replace(left=(self.width - width) / 2, width=width)

    def svg(self, per_px: float, unit: str = "") -> str:
        """Write the SVG with `per_px` of `unit` per pixel."""
        width, height = round(self.width * per_px, 4), round(self.height * per_px, 4)
        window = f"{self.left:.6g} 0 {self.width:.10g} {self.height:.10g}"
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'version="1.1" class="marks" width="{width:.10g}{unit}" height="{height:.10g}{unit}" '
            f'viewBox="{window}"><rect x="{self.left:.6g}" width="{self.width:.10g}" '
            f'height="{self.height:.10g}" fill="{self.paper}"/>{_renamed(self.body)}</svg>\n'
        )


def draw(spec: Mapping[str, Any]) -> Picture:
    """Draw a Vega-Lite specification."""
    import vl_convert

    root = _ROOT.fullmatch(vl_convert.vegalite_to_svg(dict(spec)))
    if root is None:
        raise RuntimeError("vl-convert wrote an SVG of unknown form: install the locked version")
    return Picture(root["body"], float(root["width"]), float(root["height"]), root["paper"])


def _renamed(body: str) -> str:
    """Name elements by the picture's content.

    Vega numbers its clip paths over the whole process, and two pictures on one page must not share
    a name.
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

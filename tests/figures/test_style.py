import itertools
from xml.etree import ElementTree

import altair as alt
import numpy as np
import pytest

from tests.figures.examples import bars, lines
from workbench import figures

SVG = "{http://www.w3.org/2000/svg}"

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "grey": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}


def cielab(colour: str, sight: str) -> np.ndarray:
    code = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)
    seen = np.clip(SIGHT[sight] @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ seen / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: str, other: str, sight: str) -> float:
    return float(np.linalg.norm(cielab(one, sight) - cielab(other, sight)))


# In CIELAB 2.3 is just noticeable side by side, and 10 in grey is a step of the Munsell scale.
@pytest.mark.parametrize(
    ("sight", "any_pair", "neighbours"),
    [("normal", 20, 25), ("deuteranopia", 20, 25), ("protanopia", 20, 25), ("grey", 10, 25)],
)
def test_palette_can_be_told_apart(sight: str, any_pair: float, neighbours: float) -> None:
    palette = figures.PALETTE
    assert min(difference(a, b, sight) for a, b in itertools.combinations(palette, 2)) >= any_pair
    assert min(difference(a, b, sight) for a, b in itertools.pairwise(palette)) >= neighbours
    assert min(difference(colour, "#ffffff", sight) for colour in palette) >= 10


def test_lines_have_a_second_channel() -> None:
    assert len(figures.PALETTE) == len(figures.DASHES) == len(figures.SHAPES)
    assert len(set(map(tuple, figures.DASHES))) == len(set(figures.SHAPES)) == 6
    root = ElementTree.fromstring(figures.svg(lines()))
    dashes = {
        path.get("stroke-dasharray")
        for group in root.iter(f"{SVG}g")
        if "mark-line" in group.get("class", "")
        for path in group.iter(f"{SVG}path")
    }
    assert dashes == {"1,0", "6,2", "2,2"}
    legend = next(g for g in root.iter(f"{SVG}g") if "role-legend-symbol" in g.get("class", ""))
    assert legend is not None
    with pytest.raises(ValueError, match="7 lines in one plot, but 6 colours"):
        figures.series("model", [str(n) for n in range(7)])


def test_theme_is_enabled_once_and_left_alone_by_drawing() -> None:
    alt.theme.enable("default")
    figures.svg(bars())
    assert alt.theme.active == "default"
    figures.theme()
    figures.theme()
    assert alt.theme.active == "workbench"
    assert bars().to_dict()["config"]["range"]["category"] == list(figures.PALETTE)
    # A chart's own configuration wins.
    own = figures.specification(bars().configure_axis(grid=False))["config"]["axis"]
    assert own["grid"] is False
    assert own["labelFontSize"] == 9.33

import json
import re
import subprocess
import sys
from pathlib import Path

import altair as alt
import pytest

from tests.figures.examples import bars, charts
from workbench import figures
from workbench.figures.export import to_pdf
from workbench.figures.fitting import fitted
from workbench.utils.checks import UnknownNameError

RENDER = """
import sys
from pathlib import Path
from tests.figures.examples import charts
from workbench import figures
for format in figures.FORMATS:
    figures.save(charts()["faceted"], Path(sys.argv[1]) / f"chart.{format}", "single")
"""


def test_the_same_chart_gives_the_same_bytes(tmp_path: Path) -> None:
    elsewhere = {"PYTHONHASHSEED": "7", "PATH": ""}
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-c", RENDER, str(tmp_path)], env=elsewhere, cwd=root, check=True
    )
    for format in figures.FORMATS:
        here = figures.save(charts()["faceted"], tmp_path / f"here.{format}", "single")
        assert here.read_bytes() == (tmp_path / f"chart.{format}").read_bytes()


def test_objects_of_a_pdf_keep_their_order() -> None:
    # vl-convert writes them in an order that varies from call to call.
    picture = fitted(charts()["faceted"], "single")
    assert len({to_pdf(picture) for _ in range(8)}) == 1


def test_pictures_on_one_page_share_no_name() -> None:
    one, other = figures.svg(bars()), figures.svg(bars().encode(y="mean(y):Q"))
    ids = [set(re.findall(r' id="([^"]+)"', picture)) for picture in (one, other)]
    assert all(ids)
    assert not ids[0] & ids[1]
    for picture, names in zip((one, other), ids, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", picture)) == names


def test_wrong_names_are_answered_with_the_right_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown column 'singel'. Did you mean 'single'"):
        figures.width_px("singel")
    with pytest.raises(UnknownNameError, match=r"unknown figure format 'jpg'.*svg, pdf, png"):
        figures.save(bars(), tmp_path / "chart.jpg")
    assert list(tmp_path.iterdir()) == []


def test_a_stored_specification_draws_the_same() -> None:
    stored = json.dumps(figures.specification(bars()))
    assert figures.svg(json.loads(stored), "single") == figures.svg(bars(), "single")


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

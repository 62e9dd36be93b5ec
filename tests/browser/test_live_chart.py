"""Explorers in JupyterLab: what a moved slider leaves is what drawing from the beginning makes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.browser.conftest import OpenLab
from workbench import systems

EXPLORER = """
from workbench.{0} import explorer
from workbench.widgets import explorer as explore

app = explore(explorer.draw, explorer.Setting())
app
"""


def plain(marks: list[str]) -> list[str]:
    """Marks without the numbers of gradients, which count over all that a page has drawn."""
    return [re.sub(r"#gradient_\d+", "#gradient", mark) for mark in marks]


@pytest.mark.parametrize("system", systems.systems())
def test_changed_drawing_equals_a_fresh_one(system: str, open_lab: OpenLab, tmp_path: Path) -> None:
    common: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
    }
    sources = (EXPLORER.format(system), "app.chart")
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": [{**common, "id": f"c{n}", "source": one} for n, one in enumerate(sources)],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path = tmp_path / "explorer.ipynb"
    path.write_text(json.dumps(notebook))
    slider = {"hiertrain": "edge-cloud", "dlion": "fastest"}.get(system, "bandwidth")
    with open_lab(path) as lab:
        lab.run_cell(0)
        first = lab.settled()
        lab.page.evaluate("document.querySelector('.vega-embed svg').id = 'drawn-at-first'")
        lab.press(slider, "ArrowLeft", times=3)
        lab.wait_for_other_marks(first)
        changed = lab.settled()
        assert lab.page.locator("#drawn-at-first").count() == 1  # changed, not drawn again
        lab.run_cell(1)
        assert plain(lab.marks(1)) == plain(changed)
        model = lab.setting("model")
        lab.choose("model", "lenet5_cifar" if system == "hiertrain" else "lenet5")
        lab.wait_for_other_marks(changed)
        other = lab.settled()
        lab.choose("model", model)  # whose drawing was kept
        lab.wait_for_other_marks(other)
        assert lab.page.locator("#drawn-at-first").count() == 1
        assert plain(lab.settled()) == plain(changed)
        assert lab.problems == []

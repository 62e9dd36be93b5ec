"""Drawings of the systems name what they show, inside the picture."""

from __future__ import annotations

from importlib import import_module

import pytest

from workbench import figures
from workbench.figures.sketch import draw
from workbench.reproduction import systems


@pytest.mark.parametrize("system", systems.TITLES)
def test_every_box_is_drawn_within_the_picture_with_its_label(system: str) -> None:
    sketch = import_module(f"workbench.{system}.paper.architecture").architecture()
    svg = figures.svg(draw(sketch))
    for box in sketch.boxes:
        assert box.width / 2 <= box.x <= 10 - box.width / 2
        assert box.height / 2 <= box.y <= 4 - box.height / 2
        assert f">{box.label}<" in svg or not box.label
    assert svg.count("role-mark") >= 4

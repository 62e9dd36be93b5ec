"""Drawings of the systems name what they show, inside the picture."""

from __future__ import annotations

import pytest

from workbench import figures
from workbench.figures.architecture import SKETCHES, architecture
from workbench.reproduction import systems
from workbench.utils.checks import UnknownNameError


def test_every_system_has_a_drawing() -> None:
    assert set(SKETCHES) == set(systems.TITLES)
    with pytest.raises(UnknownNameError, match="unknown system 'dyna'"):
        architecture("dyna")


@pytest.mark.parametrize("system", SKETCHES)
def test_every_box_is_drawn_within_the_picture_with_its_label(system: str) -> None:
    sketch, svg = SKETCHES[system](), figures.svg(architecture(system))
    for box in sketch.boxes:
        assert box.width / 2 <= box.x <= 10 - box.width / 2
        assert box.height / 2 <= box.y <= 4 - box.height / 2
        assert f">{box.label}<" in svg or not box.label
    assert svg.count("role-mark") >= 4

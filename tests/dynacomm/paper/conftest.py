"""Frames of all figures at smoke scale, computed once, and what they answer."""

from __future__ import annotations

import pytest

from tests.expectations import Stored
from workbench.dynacomm.paper.figures import FIGURES
from workbench.reproduction.figure import Figure


@pytest.fixture(scope="session")
def kept() -> Stored:
    """The frames, and what they answer when some are changed."""
    stored = Stored("dynacomm", FIGURES)
    computed = [figure for figure in FIGURES if isinstance(figure, Figure)]
    stored.frames |= {figure.id: figure.frame("smoke") for figure in computed}
    return stored

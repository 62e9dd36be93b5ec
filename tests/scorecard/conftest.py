"""A toy system in place of a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scorecard.helpers import Toy
from workbench import systems
from workbench.utils import files


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy(tmp_path)
    monkeypatch.setitem(systems.TITLES, "toy", made.info)
    monkeypatch.setattr(files, "DATA", tmp_path)
    return made

"""A toy system in place of a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reproduction import toys
from tests.reproduction.scorecard.helpers import Toy
from workbench.utils import files


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy(tmp_path)
    toys.install(monkeypatch, "toy", made.all_figures)
    monkeypatch.setattr(files, "DATA", tmp_path)
    return made

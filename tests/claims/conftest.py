"""A toy system in place of a real one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench
from tests.claims.helpers import TOY_MODULES, Toy
from workbench import paths


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    made = Toy(tmp_path)
    monkeypatch.setattr(workbench, "__path__", [*workbench.__path__, str(tmp_path / "package")])
    monkeypatch.setattr(paths, "DATA", tmp_path)
    yield made
    for name in TOY_MODULES:
        sys.modules.pop(name, None)

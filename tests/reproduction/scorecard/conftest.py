"""A toy system in place of a real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reproduction import toys
from tests.reproduction.scorecard.helpers import Toy
from workbench.reproduction.recordings import Recording
from workbench.utils import files


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy(tmp_path)
    toys.install(monkeypatch, "toy", made.all_figures)
    monkeypatch.setattr(files, "DATA", tmp_path)
    return made


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put recordings in place of those in ``data/recorded``, with why others cannot be read."""

    def put(kept: dict[str, Recording], **faults: str) -> None:
        monkeypatch.setattr(
            "workbench.reproduction.scorecard.judging.load_all", lambda *_: (kept, faults)
        )

    return put

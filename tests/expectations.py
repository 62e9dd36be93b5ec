"""What is expected of every system's experiments alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from workbench import results
from workbench.experiments import Scaled
from workbench.experiments.figure import Figure
from workbench.runtime import progress


def assert_tells_every_step(make: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of steps, each with words to it, up to the number that was announced."""
    made: list[progress.Steps] = []

    class Kept(progress.Steps):
        def __call__(self, what: str) -> None:
            super().__call__(what)
            made.append(self)
            assert self.what
            assert self.step <= self.total

    monkeypatch.setattr(progress, "Steps", Kept)
    make()
    assert made
    assert all(steps.step == steps.total for steps in made)


@cache
def stored_frames(smoke: Smoke, system: str) -> dict[str, pl.DataFrame]:
    """Frames that a system's notebook kept at smoke scale, by name."""
    return results.load(smoke.results, system)


def resized(figure: Figure, **sizes: Any) -> Figure:
    """A figure with other sizes, the same at every scale."""
    return replace(
        figure, sizes={**figure.sizes, **{name: Scaled(*[one] * 3) for name, one in sizes.items()}}
    )

"""What is expected of every system's experiments alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import altair as alt
import polars as pl
import pytest

from workbench.runtime import progress

Drawn = TypeVar("Drawn", bound=alt.TopLevelMixin)


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


def drawn_the_same_each_time(
    draw: Callable[[pl.DataFrame], Drawn], frame: pl.DataFrame, times: int = 6
) -> Drawn:
    """Draw a frame several times, since what rests on a table's hashing differs now and then."""
    charts = [draw(frame) for _ in range(times)]
    first, *others = (chart.to_dict() for chart in charts)
    assert all(other == first for other in others)
    return charts[0]

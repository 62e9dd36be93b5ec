"""What is expected of every system's experiments alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from workbench import figures, results, systems
from workbench.experiments import Scaled
from workbench.experiments.figure import Figure
from workbench.runtime import progress

DRAWN = 2
"""Times, since what rests on a table's hashing differs now and then."""


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


def stored_svg(smoke: Smoke, system: str, name: str) -> str:
    """Read a figure of a system's notebook at smoke scale, double column."""
    (path,) = smoke.results.glob(f"*_{system}/*/{name}.svg")
    return path.read_text()


def resized(figure: Figure, **sizes: Any) -> Figure:
    """A figure with other sizes, the same at every scale."""
    return replace(
        figure, sizes={**figure.sizes, **{name: Scaled(*[one] * 3) for name, one in sizes.items()}}
    )


def printed(smoke: Smoke, system: str, name: str) -> tuple[str, str]:
    """Expect a stored frame to give the stored figure, and to fit both columns.

    Returns its SVG in a single and in a double column.
    """
    (path,) = smoke.results.glob(f"*_{system}/*/{name}.vl.json")
    stored = json.loads(path.read_text())
    draw = systems.figures(system)[name].chart
    assert draw is not None
    charts = [draw(stored_frames(smoke, system)[name]) for _ in range(DRAWN)]
    assert all(figures.specification(chart) == stored for chart in charts)
    single, double = figures.svg(charts[0], "single"), stored_svg(smoke, system, name)
    for svg in (single, double):
        assert svg.count("<path") > 10
    return single, double

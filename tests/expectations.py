"""What is expected of every system's experiments and explorer alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TypeVar

import altair as alt
import polars as pl
import pytest

from workbench.paths import ROOT
from workbench.runtime import progress
from workbench.widgets import measure_ms

Drawn = TypeVar("Drawn", bound=alt.TopLevelMixin)


def assert_tells_every_step(make: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of steps, each with words to it, up to the number that was announced."""
    made: list[progress.Steps] = []

    class Kept(progress.Steps):
        def __call__(self, what: str) -> None:
            super().__call__(what)
            made.append(self)
            assert self.what
            assert self.step <= self.total

    monkeypatch.setattr(progress, "Steps", Kept)
    make()
    assert len(set(map(id, made))) == 1
    assert made[-1].step == made[-1].total


def drawn_the_same_each_time(
    draw: Callable[[pl.DataFrame], Drawn], frame: pl.DataFrame, times: int = 6
) -> Drawn:
    """Draw a frame several times, since what rests on a table's hashing differs now and then."""
    charts = [draw(frame) for _ in range(times)]
    first, *others = (chart.to_dict() for chart in charts)
    assert all(other == first for other in others)
    return charts[0]


def assert_follows_every_control(
    explorer: ModuleType, setting: Mapping[str, object], others: Mapping[str, object]
) -> None:
    """Another value of any control makes another chart; both are valid."""
    assert set(others) == set(setting) == set(explorer.CONTROLS)
    drawn = explorer.draw(**setting).to_dict()
    for name, value in others.items():
        assert explorer.draw(**{**setting, name: value}).to_dict() != drawn, name


def assert_answers_at_every_end(explorer: ModuleType) -> None:
    """A chart can be drawn at the lowest and highest value of every slider, and every option."""
    answers = measure_ms(explorer.draw, explorer.CONTROLS, repeats=1)
    assert set(answers["control"]) == set(explorer.CONTROLS)


def assert_starts_where_the_notebook_does(
    explorer: ModuleType, notebook: str, **set_by_the_explorer_alone: object
) -> None:
    """Each control starts at the notebook's parameter of its name.

    `set_by_the_explorer_alone` are values of controls that are no parameters.
    """
    cells = json.loads((ROOT / "notebooks" / notebook).read_text())["cells"]
    source = next(
        "".join(c["source"]) for c in cells if "parameters" in c["metadata"].get("tags", [])
    )
    values = dict(set_by_the_explorer_alone)
    exec(source, values)
    for name, control in explorer.CONTROLS.items():
        assert values[name] == control.value, name

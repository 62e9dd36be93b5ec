"""What is expected of every system's experiments alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from workbench.reproduction import results
from workbench.reproduction.claims import Answer
from workbench.reproduction.figure import Figure, JointClaims, answers_of
from workbench.reproduction.scales import Scaled
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
    return results.load(smoke.results, system).frames


class Stored:
    """Frames of a system's notebook at smoke scale, and what its figures answer by them."""

    def __init__(self, system: str, figures: Sequence[Figure | JointClaims]) -> None:
        self.system, self.figures = system, figures
        self.frames: dict[str, pl.DataFrame] = {}

    def read(self, smoke: Smoke) -> None:
        self.frames |= stored_frames(smoke, self.system)

    def answers(self, frames: dict[str, pl.DataFrame]) -> dict[str, Answer]:
        """What frames answer."""
        return answers_of(self.figures, frames).by_claim

    def value(self, claim: str, **changed: pl.DataFrame) -> Any:
        """Our value for a claim, with some frames changed."""
        return self.answers(self.frames | changed)[f"{self.system}.{claim}"].ours

    def with_value(self, figure: str, column: str, new: float, **where: object) -> pl.DataFrame:
        """A stored frame with one column changed in the rows that match."""
        rows = pl.all_horizontal(pl.col(name) == wanted for name, wanted in where.items())
        changed = pl.when(rows).then(pl.lit(new)).otherwise(column)
        return self.frames[figure].with_columns(changed.alias(column))


def resized(figure: Figure, **sizes: Any) -> Figure:
    """A figure with other sizes, the same at every scale."""
    return replace(
        figure, sizes={**figure.sizes, **{name: Scaled(*[one] * 3) for name, one in sizes.items()}}
    )

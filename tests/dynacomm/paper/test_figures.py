"""What all long experiments have in common: steps are told, interrupted points are no rows."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from tests.expectations import Stored, assert_tells_every_step, resized
from workbench.dynacomm.paper import accuracy, profiling, replanning, speedup
from workbench.reproduction.figure import Figure
from workbench.reproduction.sweep import ExperimentInterrupted
from workbench.runtime import Run, simulate

ITERATIONS = replanning.REPLANNING.sizes["iterations"].smoke


@pytest.mark.parametrize(
    "figure",
    [
        resized(accuracy.FIG10, samples=16),
        profiling.TABLE2,
        resized(replanning.REPLANNING, iterations=3),
        resized(speedup.FIG11_SIMULATED, counts=(1, 2)),
    ],
    ids=lambda figure: figure.id,
)
def test_long_experiment_tells_every_step(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_tells_every_step(lambda: figure.frame("smoke"), monkeypatch)


@pytest.mark.parametrize(
    ("module", "figure", "rows"),
    [(replanning, replanning.REPLANNING, ITERATIONS), (speedup, speedup.FIG11_SIMULATED, 1)],
)
def test_interrupted_simulation_is_no_row(
    module: ModuleType, figure: Figure, rows: int, kept: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def third_is_cut_off(*args: Any, **options: Any) -> Run:
        nonlocal calls
        calls += 1
        run = simulate(*args, **options)
        return run if calls < 3 else replace(run, ended="interrupted")

    monkeypatch.setattr(module, "simulate", third_is_cut_off)
    with pytest.raises(ExperimentInterrupted) as raised:
        figure.frame("smoke")
    assert raised.value.frame.equals(kept.frames[figure.id].head(2 * rows))
